package driver

import (
	"fmt"
	"sync/atomic"
	"time"
)

// maxRepeats is for how long an unknown error may repeat before it is final.
const maxRepeats = time.Minute

// Repeats notices an unknown error of a server that comes again and again. A
// success ends the series, and so does any other error.
type Repeats struct{ series atomic.Pointer[series] }

// series is an error that repeats.
type series struct {
	text        string
	begun, last time.Time
	times       int
}

// Succeeded ends the series. It is called for each success.
func (r *Repeats) Succeeded() {
	if r.series.Load() != nil {
		r.series.Store(nil)
	}
}

// Judge counts an error, and returns it. An unknown one that has repeated for
// too long is final. If nothing was sent for as long, the series begins anew.
func (r *Repeats) Judge(err error) error {
	if classOf(err) != unknown {
		r.series.Store(nil)
		return err
	}
	now, text := time.Now(), textOf(err)
	for {
		old := r.series.Load()
		next := &series{text: text, begun: now, last: now, times: 1}
		if old != nil && old.text == text && now.Sub(old.last) < maxRepeats {
			next.begun, next.times = old.begun, old.times+1
		}
		if !r.series.CompareAndSwap(old, next) {
			continue
		}
		if lasted := now.Sub(next.begun); lasted >= maxRepeats {
			return lastingError{err, next.times, lasted}
		}
		return err
	}
}

// textOf returns the text by which an unknown error is recognised. That of an
// expired certificate has the time of the check.
func textOf(err error) string {
	if isExpired(err) {
		return "certificate has expired"
	}
	return err.Error()
}

// lastingError is an unknown error that has repeated for too long.
type lastingError struct {
	error

	times  int
	lasted time.Duration
}

func (e lastingError) Error() string {
	return fmt.Sprintf("%v (the same %d times in %v, and no success)", e.error, e.times, e.lasted.Round(time.Second))
}

// Unwrap returns the error that has repeated.
func (e lastingError) Unwrap() error { return e.error }

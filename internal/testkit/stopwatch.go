package testkit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// stopwatchTick is how long the timer sleeps whose lateness is measured.
	stopwatchTick = time.Millisecond
	// latenessShare is how often a promise of time may meet the lateness: in
	// the test, in the server, and in whom the answer wakes up.
	latenessShare = 3
	// mostLateness is where a machine is too slow to judge a promise of time.
	mostLateness = 2 * time.Second
)

// Stopwatch measures how long something takes, and how late a timer of this
// process rings meanwhile. A bound on wall time is a promise and three times
// that lateness, so it holds on a machine that is busy with other things.
type Stopwatch struct {
	t      testing.TB
	began  time.Time
	latest atomic.Int64 // time.Duration, the most so far
	rang   atomic.Int64 // time.Duration from the start to the last ring
	stop   func()
}

// NewStopwatch starts a stopwatch. It measures lateness until Net, or until the
// test ends. It is not for a bubble, where nothing is late.
func NewStopwatch(t testing.TB) *Stopwatch {
	s := &Stopwatch{t: t, began: time.Now()}
	stopping := make(chan struct{})
	var measuring sync.WaitGroup
	measuring.Go(func() { s.measure(stopping) })
	s.stop = sync.OnceFunc(func() {
		close(stopping)
		measuring.Wait()
	})
	t.Cleanup(s.stop)
	return s
}

func (s *Stopwatch) measure(stopping <-chan struct{}) {
	ticker := time.NewTicker(stopwatchTick)
	defer ticker.Stop()
	for {
		select {
		case <-stopping:
			return
		case <-ticker.C:
			s.latest.Store(int64(s.lateness()))
			s.rang.Store(int64(time.Since(s.began)))
		}
	}
}

// lateness returns how late the timer rang at most, with the ring that is due
// now: what a test measures may run before the timer does.
func (s *Stopwatch) lateness() time.Duration {
	due := time.Duration(s.rang.Load()) + stopwatchTick
	return max(time.Duration(s.latest.Load()), time.Since(s.began)-due)
}

// Within fails the test if the promise has passed since the start, and what the
// machine may add.
func (s *Stopwatch) Within(promise time.Duration, what ...any) {
	s.t.Helper()
	s.Check(time.Since(s.began), promise, what...)
}

// Check fails the test if something took longer than its promise and what the
// machine may add. It must have happened while this stopwatch ran.
func (s *Stopwatch) Check(took, promise time.Duration, what ...any) {
	s.t.Helper()
	late := s.lateness()
	if latenessShare*late > mostLateness {
		s.t.Logf("a timer was %v late: the machine is too slow to judge %v, which took %v", late, promise, took)
		return
	}
	require.Less(s.t, took, promise+latenessShare*late, what...)
}

// Net stops the stopwatch and returns the time since its start, less what the
// machine may have added: one of many times of which a test takes the median.
// It is called once, and no other method after it.
func (s *Stopwatch) Net() time.Duration {
	took, late := time.Since(s.began), s.lateness()
	s.stop()
	return max(0, took-min(latenessShare*late, mostLateness))
}

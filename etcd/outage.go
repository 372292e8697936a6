package etcdlock

import (
	"errors"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/outage"
)

// begin counts a call that blocks, until its end.
func (w *wait) begin() {
	if w.block {
		w.locker.waiting.Add(1)
		w.outage = w.locker.outages.Begin()
	}
}

// end undoes begin and setHint.
func (w *wait) end() {
	if w.hint != nil {
		w.hint.Stop()
	}
	if w.block {
		w.locker.waiting.Add(-1)
		w.locker.outages.End(&w.outage, w.locker.waiting.Load())
	}
}

// endOutage ends the call's part in an outage while another call asks in its
// place.
func (w *wait) endOutage() {
	if w.block {
		w.locker.outages.End(&w.outage, w.locker.waiting.Load()-1)
	}
}

// awaitAnswer reports whether a request has ended, which closes done, before
// the caller leaves. Package clientv3 repeats a request until its limit. So a
// call that blocks asks after a second why no server can be reached.
func (w *wait) awaitAnswer(done <-chan struct{}) bool {
	var late <-chan time.Time
	if w.block {
		timer := time.NewTimer(outage.Patience)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-done:
			return true
		case <-w.ctx.Done():
			return false
		case <-late:
			if why := w.locker.unreachable(); why != nil {
				w.noteFailure(why)
			}
		}
	}
}

// noteFailure notes that an attempt of a call that blocks has found no server
// that it can use. The address is unknown: package clientv3 chooses the member.
func (w *wait) noteFailure(why error) {
	switch {
	case errors.Is(why, relock.ErrLockAcquiredByOthers), errors.Is(why, errLateCopy), errors.Is(why, errSession):
	default:
		w.locker.outages.Failed(&w.outage, "", w.locker.waiting.Load(), why)
	}
}

// noteAnswer notes that an attempt has found a server that it can use.
func (w *wait) noteAnswer() {
	if w.block {
		w.locker.outages.Answered(&w.outage, noAddress)
	}
}

func noAddress() string { return "" }

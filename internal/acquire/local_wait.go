package acquire

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/waitqueue"
)

// LocalAttempt is a call that can wait in its client's line.
type LocalAttempt interface {
	// Entry returns the queue entry of a call that has become the first of its
	// line. It is left, the entry of the predecessor, or a new one if that is
	// nil.
	Entry(l *waitqueue.Line, left *waitqueue.Entry) *waitqueue.Entry
	// Try makes an attempt with that entry.
	Try(ctx context.Context) (*lease.Hold, error)
}

// WaitLocally waits in the client's line until the call becomes the first
// waiter, or another call hands the lock to it. The first waiter waits in
// Redis. A call for a reentrant lock begins again if WaitLocally returns
// neither a hold nor an error.
func (w *Wait) WaitLocally(l *waitqueue.Line, a LocalAttempt) (*lease.Hold, error) {
	s, err := w.client.Local.Join(l, &w.Call)
	switch {
	case errors.Is(err, localwait.ErrOtherKind): // Redis decides which kind is wrong
		w.Queued = a.Entry(l, nil)
		defer w.Queued.Leave()
		return w.Acquire(a.Try)
	case err != nil:
		return nil, err
	}
	for {
		o, ok := w.awaitOffer(s)
		switch {
		case !ok && w.hasEnded():
			return w.stop(s)
		case !ok:
			if h, done, err := w.goDeeper(s); done {
				return h, err
			}
		case o.IsGrant():
			return w.takeGrant(s, o.Grant)
		default:
			if h, done, err := w.lead(s, a, o.Entry); done {
				return h, err
			}
		}
	}
}

// awaitOffer waits for an offer, and reports whether it got one. It gets none
// if the wait ends first, or if the owner may have got the lock elsewhere. The
// call counts as waiting unless it has an offer already. Meanwhile the first
// waiter asks the server.
func (w *Wait) awaitOffer(s *lease.LocalWaiter) (lease.Offer, bool) {
	if len(s.HandOff) == 0 {
		w.begin()
		w.client.Outages.End(&w.Outage, w.Others())
	}
	got := w.await(s.HandOff, nil)
	return got.offer, got.offered
}

// WaitForValid repeats WaitLocally until it returns a hold that is still valid.
// If the process is stopped while a hold is passed on to one of its goroutines,
// it may continue after valid until.
func (w *Wait) WaitForValid(l *waitqueue.Line, a LocalAttempt) (*lease.Hold, error) {
	for {
		h, err := w.WaitLocally(l, a)
		if h == nil || err != nil || h.Err() == nil {
			return h, err
		}
		_ = h.Unlock() // the loss was logged
		w.Note(lease.ErrLate)
		if w.hasEnded() {
			return nil, w.reason()
		}
	}
}

func (w *Wait) hasEnded() bool { return w.Ctx.Err() != nil || w.life().Err() != nil }

// stop ends a local wait. It accepts a grant that was offered at the last
// moment.
func (w *Wait) stop(s *lease.LocalWaiter) (*lease.Hold, error) {
	if o := s.Leave(nil); o.IsGrant() {
		return w.takeGrant(s, o.Grant)
	}
	known := s.Line.Answer()
	w.Note(known.Reason())
	w.last = Kept(w.last, known.Kept)
	return w.passed(nil)
}

// lead waits in Redis on behalf of the line. left is the queue entry of the
// predecessor, or nil. done is false if another call is about to transfer the
// lock to this one. The queue entry then belongs to another call.
func (w *Wait) lead(s *lease.LocalWaiter, a LocalAttempt, left *waitqueue.Entry) (h *lease.Hold, done bool, err error) {
	w.waiter, w.Queued = s, a.Entry(s.Line, left)
	again := true
	if left != nil { // the server has said that the entry is in the queue
		w.Note(errs.ErrLockAcquiredByOthers)
		h, again = w.sleep(errs.ErrLockAcquiredByOthers)
	}
	if again {
		h, err = w.Acquire(a.Try)
	} else {
		h, err = w.passed(h)
	}
	done = w.waiter != nil || !w.Settings.Kind.Transfers
	if w.waiter != nil {
		if w.Queued.Woken { // which the call that gets the entry next may need
			w.Queued.Nudge()
		}
		s.Leave(w.Queued)
	}
	w.waiter, w.Queued = nil, nil
	return h, done, err
}

// goDeeper goes one level deeper for a waiting call for a reentrant lock, after
// another call of its owner got the lock. done is false if the owner no longer
// has it. The call then goes on waiting.
func (w *Wait) goDeeper(s *lease.LocalWaiter) (h *lease.Hold, done bool, err error) {
	if h, err = w.Owner.Try(w.Ctx, &w.Call, nil); h == nil && err == nil {
		return nil, false, nil
	}
	if t := s.Leave(nil).Grant.Transfer; t != nil {
		t.Refuse()
	}
	if err != nil {
		err = w.failed(err)
	}
	return h, true, err
}

// takeGrant ends a wait with a hold or a transfer from another call.
func (w *Wait) takeGrant(s *lease.LocalWaiter, grant lease.Handed) (*lease.Hold, error) {
	if grant.Transfer != nil {
		return w.take(grant.Transfer)
	}
	s.Done()
	return w.passed(grant.Hold)
}

// take makes a hold of the lock that another call transferred.
func (w *Wait) take(t *lease.Transfer) (*lease.Hold, error) {
	w.Note(t.Reason())
	h, err := w.Owner.Accept(w.Ctx, t)
	if err != nil {
		return nil, w.failed(err)
	}
	return h, nil
}

// failed returns the error of a call that ends because of err, or nil if the
// call begins again.
func (w *Wait) failed(err error) error {
	w.Note(err)
	if lockspec.IsRetryable(err) && !w.hasEnded() {
		return nil
	}
	return w.reason()
}

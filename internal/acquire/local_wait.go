package acquire

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/waitqueue"
)

// localAttempt is a call that can wait in its client's line.
type localAttempt interface {
	// entry returns the queue entry of a call that has become the first of its
	// line. It is left, the entry of the predecessor, or a new one if that is
	// nil.
	entry(l *waitqueue.Line, left *waitqueue.Entry) *waitqueue.Entry
	// try makes an attempt with that entry.
	try(ctx context.Context) (*lease.Hold, error)
}

// waitLocally waits in the client's line until the call becomes the first
// waiter, or another call hands the lock to it. The first waiter waits in
// Redis. A call for a reentrant lock begins again if waitLocally returns
// neither a hold nor an error.
func (w *wait) waitLocally(l *waitqueue.Line, a localAttempt) (*lease.Hold, error) {
	s, err := l.Join(&w.Call)
	switch {
	case errors.Is(err, waitqueue.ErrOtherKind): // Redis decides which kind is wrong
		w.queued = a.entry(l, nil)
		defer w.queued.Leave()
		return w.acquire(a.try)
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
		case o.Grant != nil:
			return w.takeOwn(s, o.Grant)
		default:
			if h, done, err := w.lead(s, a, o.Entry); done {
				return h, err
			}
		}
	}
}

// awaitOffer waits for an offer. The call counts as waiting unless it has an
// offer already. Meanwhile the first waiter asks the server.
func (w *wait) awaitOffer(s *waitqueue.Waiter) (waitqueue.Offer, bool) {
	if len(s.HandOff) == 0 {
		w.begin()
		w.client.Outages.End(&w.outage, w.others())
	}
	return s.Await()
}

// waitForValid repeats waitLocally until it returns a hold that is still valid.
// If the process is stopped while a hold is passed on to one of its goroutines,
// it may continue after valid until.
func (w *wait) waitForValid(l *waitqueue.Line, a localAttempt) (*lease.Hold, error) {
	for {
		h, err := w.waitLocally(l, a)
		if h == nil || err != nil || h.Err() == nil {
			return h, err
		}
		_ = h.Unlock() // the loss was logged
		w.note(lease.ErrLate)
		if w.hasEnded() {
			return nil, w.reason()
		}
	}
}

func (w *wait) hasEnded() bool { return w.Ctx.Err() != nil || w.life.Err() != nil }

// stop ends a local wait. It accepts a grant that was offered at the last
// moment.
func (w *wait) stop(s *waitqueue.Waiter) (*lease.Hold, error) {
	if o := s.Leave(nil); o.Grant != nil {
		return w.takeGrant(o.Grant)
	}
	w.note(s.Line.Reason())
	w.last = kept(w.last, s.Line.KeptUntil())
	return w.passed(nil)
}

// lead waits in Redis on behalf of the line. left is the queue entry of the
// predecessor, or nil. done is false if another call is about to transfer the
// lock to this one. The queue entry then belongs to another call.
func (w *wait) lead(s *waitqueue.Waiter, a localAttempt, left *waitqueue.Entry) (h *lease.Hold, done bool, err error) {
	w.waiter, w.queued = s, a.entry(s.Line, left)
	again := true
	if left != nil { // the server has said that the entry is in the queue
		w.note(errs.ErrLockAcquiredByOthers)
		h, again = w.sleep(errs.ErrLockAcquiredByOthers)
	}
	if again {
		h, err = w.acquire(a.try)
	} else {
		h, err = w.passed(h)
	}
	done = w.waiter != nil || !w.Settings.Kind.Transfers
	if w.waiter != nil {
		w.queued.WakeNext()
		s.Leave(w.queued)
	}
	w.waiter, w.queued = nil, nil
	return h, done, err
}

// goDeeper goes one level deeper for a parked call for a reentrant lock, after
// another call of its owner got the lock. done is false if the owner no longer
// has it. The call then stays parked.
func (w *wait) goDeeper(s *waitqueue.Waiter) (h *lease.Hold, done bool, err error) {
	if h, err = w.owner.Try(w.Ctx, &w.Call, nil); h == nil && err == nil {
		return nil, false, nil
	}
	if t, ok := s.Leave(nil).Grant.(*lease.Transfer); ok {
		t.Refuse()
	}
	if err != nil {
		err = w.failed(err)
	}
	return h, true, err
}

// takeOwn is takeGrant for the waiter that has received the grant.
func (w *wait) takeOwn(s *waitqueue.Waiter, grant any) (*lease.Hold, error) {
	if _, passed := grant.(*lease.Hold); passed {
		s.Done()
	}
	return w.takeGrant(grant)
}

// takeGrant ends a wait with a hold or a transfer from another call.
func (w *wait) takeGrant(grant any) (*lease.Hold, error) {
	if t, ok := grant.(*lease.Transfer); ok {
		return w.take(t)
	}
	return w.passed(grant.(*lease.Hold))
}

// take makes a hold of the lock that another call transferred.
func (w *wait) take(t *lease.Transfer) (*lease.Hold, error) {
	w.note(t.Reason())
	h, err := w.owner.Accept(w.Ctx, t)
	if err != nil {
		return nil, w.failed(err)
	}
	return h, nil
}

// failed returns the error of a call that ends because of err, or nil if the
// call begins again.
func (w *wait) failed(err error) error {
	w.note(err)
	if lockspec.IsRetryable(err) && !w.hasEnded() {
		return nil
	}
	return w.reason()
}

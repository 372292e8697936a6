package acquire

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/waitqueue"
)

// sitter is a call that can sit.
type sitter interface {
	// stand is where the call stands in Redis once it is the first of its line: on a place of its own, or on one that
	// another call has left.
	stand(l *waitqueue.Line, left *waitqueue.Entry) *waitqueue.Entry
	// try makes an attempt from there.
	try(ctx context.Context) (*lease.Hold, error)
}

// sit waits in the client's line until the call is the first of it, or another gives the lock to it. The first asks
// Redis. Neither a hold nor an error: a call for a reentrant lock begins anew.
func (w *wait) sit(l *waitqueue.Line, a sitter) (*lease.Hold, error) {
	s, err := l.Join(&w.Call)
	switch {
	case errors.Is(err, waitqueue.ErrOtherKind): // Redis says who is mistaken
		w.queued = a.stand(l, nil)
		defer w.queued.Leave()
		return w.acquire(a.try)
	case err != nil:
		return nil, err
	}
	for {
		o, ok := s.Await()
		switch {
		case !ok && w.isOver():
			return w.stop(s)
		case !ok:
			if h, done, err := w.goDeeper(s); done {
				return h, err
			}
		case o.Grant != nil:
			return w.takeGrant(o.Grant)
		default:
			if h, done, err := w.lead(s, a, o.Entry); done {
				return h, err
			}
		}
	}
}

// sitForValid is sit until it brings a hold that is not over: a process that is stopped while a hold is passed on to one of
// its goroutines may go on when the belief has ended.
func (w *wait) sitForValid(l *waitqueue.Line, a sitter) (*lease.Hold, error) {
	for {
		h, err := w.sit(l, a)
		if h == nil || err != nil || h.Err() == nil {
			return h, err
		}
		_ = h.Unlock() // the loss was logged
		w.note(lease.ErrLate)
		if w.isOver() {
			return nil, w.reason()
		}
	}
}

// isOver says that the call waits no longer.
func (w *wait) isOver() bool { return w.Ctx.Err() != nil || w.life.Err() != nil }

// stop ends a wait in memory, with what was offered at the last moment.
func (w *wait) stop(s *waitqueue.Waiter) (*lease.Hold, error) {
	if o := s.Leave(nil); o.Grant != nil {
		return w.takeGrant(o.Grant)
	}
	w.note(s.Line.Reason())
	return w.passed(nil)
}

// lead waits in Redis, for all who sit behind. It says no when another call is about to give the lock to this one, whose
// place is another's then.
func (w *wait) lead(s *waitqueue.Waiter, a sitter, left *waitqueue.Entry) (h *lease.Hold, done bool, err error) {
	w.seat, w.queued = s, a.stand(s.Line, left)
	again := true
	if left != nil { // the server has said that it waits
		w.note(errs.ErrLockAcquiredByOthers)
		h, again = w.sleep(errs.ErrLockAcquiredByOthers)
	}
	if again {
		h, err = w.acquire(a.try)
	} else {
		h, err = w.passed(h)
	}
	done = w.seat != nil || !w.Settings.Kind.Transfers
	if w.seat != nil {
		w.queued.WakeNext()
		s.Leave(w.queued)
	}
	w.seat, w.queued = nil, nil
	return h, done, err
}

// goDeeper is for a call for a reentrant lock that sits while its owner has got it elsewhere. It says no when the owner
// has it no more: then the call sits on.
func (w *wait) goDeeper(s *waitqueue.Waiter) (h *lease.Hold, done bool, err error) {
	if h, err = w.reentrant().deeper(w.Ctx); h == nil && err == nil {
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

// takeGrant ends a wait with what another call has given to it.
func (w *wait) takeGrant(grant any) (*lease.Hold, error) {
	if t, ok := grant.(*lease.Transfer); ok {
		return w.take(t)
	}
	return w.passed(grant.(*lease.Hold))
}

// reentrant returns the attempt of a call for a reentrant lock.
func (w *wait) reentrant() *reentrantAttempt { return w.Attempt.(*reentrantAttempt) }

// take makes a hold of the lock that another call has transferred.
func (w *wait) take(t *lease.Transfer) (*lease.Hold, error) {
	w.note(t.Reason())
	h, err := w.reentrant().owner.Accept(w.Ctx, t)
	if err != nil {
		return nil, w.failed(err)
	}
	return h, nil
}

// failed is the error of a call that ends because of err; nil when it begins anew.
func (w *wait) failed(err error) error {
	w.note(err)
	if lockspec.IsRetryable(err) && !w.isOver() {
		return nil
	}
	return w.reason()
}

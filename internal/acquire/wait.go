package acquire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Wait is one call that acquires a lock. It makes attempts, and pauses between
// them if the call may wait. Its exported fields belong to the kind, which sets
// them before or during an attempt.
type Wait struct {
	localwait.Call
	Block bool // the call may wait

	// Key is the key that the last reason is about. It is that of the lock,
	// unless an attempt for several keys names another.
	Key string
	// Owner is nil for a lock without owners.
	Owner *lease.Owner
	// Nodes is nil for a lock on one server.
	Nodes Nodes
	// Outage is the part that a call on one server has in an outage.
	Outage outage.Call
	// Queued is the call's queue entry. It is nil if the call does not wait and
	// may overtake waiters.
	Queued *waitqueue.Entry
	// Rest is the time until the next attempt, if the last one has computed it,
	// otherwise 0.
	Rest time.Duration

	client  *lease.Manager
	cancel  context.CancelFunc
	hint    *hint // see begin; nil until the first pause
	counted bool  // as one that waits
	// The call's local waiter while it is the first of its line, for an unfair
	// lock. It is nil once another call hands the lock to it.
	waiter *lease.LocalWaiter
	last   error         // the last reason seen
	pause  time.Duration // the last pause, which grows after errors of the server
}

// Compete acquires a lock for a call: it makes attempts, and waits between them
// if the call may.
type Compete func(w *Wait) (*lease.Hold, error)

// NewWait begins a call for the lock. Run completes it.
func NewWait(ctx context.Context, t *Target, block bool) *Wait {
	s := &t.Settings
	w := &Wait{
		Call:   localwait.Call{Caller: ctx, Ctx: ctx, Settings: s},
		client: t.Manager, Key: t.Key, Block: block, cancel: func() {},
	}
	if block {
		w.Outage = t.Manager.Outages.Begin()
	}
	if block && s.BlockTimeout > 0 {
		w.Ctx, w.cancel = context.WithTimeout(ctx, s.BlockTimeout)
	}
	return w
}

// Run acquires the lock with compete, and ends the call. It reports whether the
// call has waited.
func (w *Wait) Run(compete Compete) (h *lease.Hold, waited bool, err error) {
	defer w.cancel()
	defer w.stopHint()
	h, err = compete(w)
	return h, w.Waited(), w.explain(err)
}

// Acquire makes attempts until one is granted, one fails for good, or the wait
// ends.
func (w *Wait) Acquire(attempt func(context.Context) (*lease.Hold, error)) (*lease.Hold, error) {
	for {
		h, err := attempt(w.Ctx)
		if w.waiter != nil {
			w.waiter.Line.Note(err)
		}
		if err == nil {
			return h, nil
		}
		w.Note(err)
		if errors.Is(err, driver.ErrAbandoned) && w.Queued != nil {
			w.Note(w.Queued.Line.Answer().Err) // sleep does the same if the wait ends there
		}
		if !w.Block || !lockspec.IsRetryable(err) || errors.Is(err, errs.ErrQueueFull) {
			return nil, w.reason()
		}
		if h, again := w.sleep(err); !again {
			return w.passed(h)
		}
	}
}

// QueueUp is Acquire in the order of the queue of the line. body returns what
// the lock stores for a hold.
func (w *Wait) QueueUp(
	l *waitqueue.Line, body func(hold string) (string, string), attempt func(context.Context) (*lease.Hold, error),
) (*lease.Hold, error) {
	w.Queued = waitqueue.NewEntry(l, w.Settings, !w.Block, body)
	defer w.Queued.Leave()
	return w.Acquire(attempt)
}

// FailedFast ends the first attempt of a call that may wait, which failed with
// err. It reports whether the call is done.
func (w *Wait) FailedFast(err error) (h *lease.Hold, done bool, _ error) {
	w.Note(err)
	if !lockspec.IsRetryable(err) {
		return nil, true, w.reason()
	}
	if h, again := w.sleep(err); !again {
		h, err = w.passed(h)
		return h, true, err
	}
	return nil, false, nil
}

// Note keeps the reason why an attempt failed. An abandoned request is never
// kept, and a late grant only if there is no other reason. Both explain less
// than an earlier reason.
func (w *Wait) Note(err error) {
	if err == nil || errors.Is(err, driver.ErrAbandoned) || (w.last != nil && errors.Is(err, lease.ErrLate)) {
		return
	}
	w.last = err
}

// sleep pauses after an attempt that failed with err. A call in the queue
// pauses until it is woken. If it is not in the queue, or has a rest, a timer
// ends the pause too, see nextPause.
//
// again is false if the wait is over: it has ended, or another call of the
// client passed a hold on. h is nil if that call is about to transfer one.
func (w *Wait) sleep(err error) (h *lease.Hold, again bool) {
	var turn <-chan lease.Offer
	inQueue := w.Queued != nil && w.Queued.Known && errors.Is(err, errs.ErrLockAcquiredByOthers)
	if inQueue && w.waiter != nil {
		turn = w.waiter.HandOff
		w.waiter.Park(w.Queued)
	}
	var due <-chan time.Time
	if !inQueue || w.Rest > 0 {
		timer := time.NewTimer(w.nextPause(err))
		defer timer.Stop()
		due = timer.C
	}
	w.begin()
	w.noteServer(err)
	s := w.await(turn, due)
	if turn != nil && (s.offer.Grant.Hold != nil || w.waiter.Unpark()) {
		return w.takeOffer(s), false
	}
	if s.woken {
		w.Queued.Woken = true
	}
	again = (s.due || s.woken || s.notified) && w.life().Err() == nil
	if !again && w.Queued != nil {
		w.Note(w.Queued.Line.Answer().Err)
	}
	return nil, again
}

// signal is what ended a pause. If all fields are false, the wait has ended.
type signal struct {
	offer    lease.Offer
	offered  bool
	woken    bool // a notification for the queue entry
	notified bool // another call of the owner may have the lock, or a RedLock's node notified
	due      bool
}

// await waits for the first signal.
func (w *Wait) await(turn <-chan lease.Offer, due <-chan time.Time) (s signal) {
	var wake <-chan struct{}
	if w.Queued != nil {
		wake = w.Queued.Wake
	}
	select {
	case s.offer = <-turn:
		s.offered = true
	case <-wake:
		s.woken = true
	case <-w.OwnerChanged:
		s.notified = true
	case <-due:
		s.due = true
	case <-w.Ctx.Done():
	case <-w.life().Done():
	}
	return s
}

// takeOffer returns the hold that another call passed on to this one. It
// returns nil for a transfer, which comes later. The queue entry belongs to
// another call now.
func (w *Wait) takeOffer(s signal) *lease.Hold {
	h := w.waiter.Given(s.offer, s.offered).Hold
	w.waiter = nil
	if s.woken {
		w.Queued.Nudge() // the notification was for the entry
	}
	if s.notified {
		w.Nudge()
	}
	return h
}

// passed ends a wait: with the hold h that another call passed on, or without
// one if h is nil.
func (w *Wait) passed(h *lease.Hold) (*lease.Hold, error) {
	switch {
	case h == nil:
		return nil, w.reason()
	case w.life().Err() != nil:
		_ = h.Unlock() // Close has ended the hold
		return nil, errs.ErrClosed
	}
	return h, nil
}

// reason returns why the wait ended without a grant.
func (w *Wait) reason() error {
	switch {
	case w.life().Err() != nil:
		return errs.ErrClosed
	case w.Caller.Err() != nil:
		return errs.EndOf(w.Caller, w.last)
	case w.last == nil:
		return fmt.Errorf("block timeout of %v ended before the server's first answer: %w",
			w.Settings.BlockTimeout, os.ErrDeadlineExceeded)
	case w.Queued != nil:
		return Kept(w.last, w.Queued.Line.Answer().Kept)
	}
	return w.last
}

package acquire

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/waitqueue"
)

// wait is one call that acquires a lock. It makes attempts, and pauses between
// them if the call may wait.
type wait struct {
	waitqueue.Call
	client  *lease.Manager
	key     string          // that the last reason is about
	life    context.Context // of the client, or of a RedLock's clients
	block   bool            // the call may wait
	counted bool            // as one that waits
	cancel  context.CancelFunc
	owner   *lease.Owner // nil for a lock without owners
	hint    *hint        // see begin; nil until the first pause
	outage  outage.Call  // of a call on one client
	nodes   *redAttempt  // of a RedLock, which notes each node; else nil. An interface costs 16 bytes a lock

	// The call's queue entry. It is nil if the call does not wait and may
	// overtake waiters.
	queued *waitqueue.Entry
	// The call's local waiter while it is the first of its line, for an unfair
	// lock. It is nil once another call hands the lock to it.
	waiter *waitqueue.Waiter
	last   error         // the last reason seen
	pause  time.Duration // the last pause, which grows after errors of the server
	rest   time.Duration // until the next attempt, if the last one has computed it; otherwise 0
}

func newWait(ctx, life context.Context, t *Target, block bool) *wait {
	s := &t.Settings
	w := &wait{
		Call:   waitqueue.Call{Caller: ctx, Ctx: ctx, Settings: s},
		client: t.Manager, key: t.Key, life: life, block: block, cancel: func() {},
	}
	if block {
		w.outage = t.Manager.Outages.Begin()
	}
	if block && s.BlockTimeout > 0 {
		w.Ctx, w.cancel = context.WithTimeout(ctx, s.BlockTimeout)
	}
	return w
}

// acquire makes attempts until one is granted, one fails for good, or the wait
// ends.
func (w *wait) acquire(attempt func(context.Context) (*lease.Hold, error)) (*lease.Hold, error) {
	for {
		h, err := attempt(w.Ctx)
		if w.waiter != nil {
			w.waiter.Line.Note(err)
		}
		if err == nil {
			return h, nil
		}
		w.note(err)
		if errors.Is(err, driver.ErrAbandoned) && w.queued != nil {
			w.note(w.queued.Line.LastError()) // sleep does the same if the wait ends there
		}
		if !w.block || !lockspec.IsRetryable(err) || errors.Is(err, errs.ErrQueueFull) {
			return nil, w.reason()
		}
		if h, again := w.sleep(err); !again {
			return w.passed(h)
		}
	}
}

// failedFast ends the first attempt of a call that may wait, which failed with
// err. It reports whether the call is done.
func (w *wait) failedFast(err error) (h *lease.Hold, done bool, _ error) {
	w.note(err)
	if !lockspec.IsRetryable(err) {
		return nil, true, w.reason()
	}
	if h, again := w.sleep(err); !again {
		h, err = w.passed(h)
		return h, true, err
	}
	return nil, false, nil
}

// note keeps the reason why an attempt failed. An abandoned request is never
// kept, and a late grant only if there is no other reason. Both explain less
// than an earlier reason.
func (w *wait) note(err error) {
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
func (w *wait) sleep(err error) (h *lease.Hold, again bool) {
	var turn <-chan waitqueue.Offer
	inQueue := w.queued != nil && w.queued.Known && errors.Is(err, errs.ErrLockAcquiredByOthers)
	if inQueue && w.waiter != nil {
		turn = w.waiter.HandOff
		w.waiter.Park(w.queued)
	}
	var due <-chan time.Time
	if !inQueue || w.rest > 0 {
		timer := time.NewTimer(w.nextPause(err))
		defer timer.Stop()
		due = timer.C
	}
	w.begin()
	w.noteServer(err)
	s := w.await(turn, due)
	if _, passed := s.offer.Grant.(*lease.Hold); turn != nil && (passed || w.waiter.Unpark()) {
		return w.takeOffer(s), false
	}
	if s.woken {
		w.queued.Woken = true
	}
	again = (s.due || s.woken || s.notified) && w.life.Err() == nil
	if !again && w.queued != nil {
		w.note(w.queued.Line.LastError())
	}
	return nil, again
}

// signal is what ended a pause. If all fields are false, the wait has ended.
type signal struct {
	offer    waitqueue.Offer
	offered  bool
	woken    bool // a notification for the queue entry
	notified bool // another call of the owner may have the lock, or a RedLock's node notified
	due      bool
}

// await waits for the first signal.
func (w *wait) await(turn <-chan waitqueue.Offer, due <-chan time.Time) (s signal) {
	var wake <-chan struct{}
	if w.queued != nil {
		wake = w.queued.Wake
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
	case <-w.life.Done():
	}
	return s
}

// takeOffer returns the hold that another call passed on to this one. It
// returns nil for a transfer, which comes later. The queue entry belongs to
// another call now.
func (w *wait) takeOffer(s signal) *lease.Hold {
	h, _ := w.waiter.Given(s.offer, s.offered).(*lease.Hold)
	w.waiter = nil
	if s.woken {
		w.queued.Nudge() // the notification was for the entry
	}
	if s.notified {
		w.Nudge()
	}
	return h
}

// passed ends a wait: with the hold h that another call passed on, or without
// one if h is nil.
func (w *wait) passed(h *lease.Hold) (*lease.Hold, error) {
	switch {
	case h == nil:
		return nil, w.reason()
	case w.life.Err() != nil:
		_ = h.Unlock() // Close has ended the hold
		return nil, errs.ErrClosed
	}
	return h, nil
}

// nextPause returns the rest that the last attempt has computed. Without one,
// it returns the poll interval and up to a fifth more. The interval grows while
// the server answers with errors or not at all. It does not while a Cluster
// moves the keys, which ends soon.
func (w *wait) nextPause(err error) time.Duration {
	poll := w.Settings.Poll
	if w.rest > 0 {
		w.pause = poll
		return w.rest
	}
	if errors.Is(err, errs.ErrLockAcquiredByOthers) || driver.IsHalfMoved(err) {
		w.pause = poll
	} else {
		w.pause = max(poll, min(2*w.pause, waitqueue.MaxPause))
	}
	return w.pause + rand.N(w.pause/5+1)
}

// reason returns why the wait ended without a grant.
func (w *wait) reason() error {
	switch {
	case w.life.Err() != nil:
		return errs.ErrClosed
	case w.Caller.Err() != nil:
		return errs.EndOf(w.Caller, w.last)
	case w.last == nil:
		return fmt.Errorf("block timeout of %v ended before the server's first answer: %w",
			w.Settings.BlockTimeout, os.ErrDeadlineExceeded)
	case w.queued != nil:
		return kept(w.last, w.queued.Line.KeptUntil())
	}
	return w.last
}

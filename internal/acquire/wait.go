package acquire

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/waitqueue"
)

// wait is one call that acquires: attempts, and the pauses between them when it may wait.
type wait struct {
	waitqueue.Call
	life   context.Context // of the client, or of the clients
	block  bool
	cancel context.CancelFunc

	queued *waitqueue.Entry  // the call's place in the queue; nil for one that does not wait and may overtake
	seat   *waitqueue.Waiter // the first of its line, of an unfair lock; nil once another gives the lock to it
	last   error             // the last reason seen
	pause  time.Duration     // after a server's error
	rest   time.Duration     // until the next attempt, where the last one has found out; else 0
}

func newWait(ctx, life context.Context, s *lockspec.Spec, block bool) *wait {
	w := &wait{Call: waitqueue.Call{Caller: ctx, Ctx: ctx, Settings: s}, life: life, block: block, cancel: func() {}}
	if block && s.BlockTimeout > 0 {
		w.Ctx, w.cancel = context.WithTimeout(ctx, s.BlockTimeout)
	}
	return w
}

// acquire makes attempts until one is granted, one fails for good, or the wait ends.
func (w *wait) acquire(attempt func(context.Context) (*lease.Hold, error)) (*lease.Hold, error) {
	for {
		h, err := attempt(w.Ctx)
		if w.seat != nil {
			w.seat.Line.Note(err)
		}
		if err == nil {
			return h, nil
		}
		w.note(err)
		if errors.Is(err, driver.ErrAbandoned) && w.queued != nil {
			w.note(w.queued.Line.LastTrouble()) // as where the end comes while it sleeps
		}
		if !w.block || !lockspec.IsRetryable(err) || errors.Is(err, errs.ErrQueueFull) {
			return nil, w.reason()
		}
		if h, again := w.sleep(err); !again {
			return w.passed(h)
		}
	}
}

// note keeps the reason of an attempt that failed. That a caller left, or an answer came too late, says less
// than what was seen before.
func (w *wait) note(err error) {
	if err == nil || errors.Is(err, driver.ErrAbandoned) || (w.last != nil && errors.Is(err, lease.ErrLate)) {
		return
	}
	w.last = err
}

// sleep pauses before the next attempt, after one that failed with err: until
// the call is woken if it is in the queue, else for a while, see nextPause.
// again is false if the wait is over: by its end, or by the hold that another
// call of the client has passed on. There is no hold yet if that call is about
// to transfer one.
func (w *wait) sleep(err error) (h *lease.Hold, again bool) {
	var turn <-chan waitqueue.Offer
	inQueue := w.queued != nil && w.queued.Known && errors.Is(err, errs.ErrLockAcquiredByOthers)
	if inQueue && w.seat != nil {
		turn = w.seat.Turn
		w.seat.Park(w.queued)
	}
	var due <-chan time.Time
	if !inQueue || w.rest > 0 {
		timer := time.NewTimer(w.nextPause(err))
		defer timer.Stop()
		due = timer.C
	}
	s := w.await(turn, due)
	if _, passed := s.offer.Grant.(*lease.Hold); turn != nil && (passed || w.seat.Unpark()) {
		return w.takeOffer(s), false
	}
	if s.woken {
		w.queued.Woken = true
	}
	again = (s.due || s.woken || s.told) && w.life.Err() == nil
	if !again && w.queued != nil {
		w.note(w.queued.Line.LastTrouble())
	}
	return nil, again
}

// signal is what ended a pause; all false: the wait has ended.
type signal struct {
	offer   waitqueue.Offer
	offered bool
	woken   bool // by a message for the entry
	told    bool // the owner may have got the lock elsewhere
	due     bool
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
	case <-w.Again:
		s.told = true
	case <-due:
		s.due = true
	case <-w.Ctx.Done():
	case <-w.life.Done():
	}
	return s
}

// takeOffer returns the hold that another call has passed on to this one, whose
// entry is another's now; nil for one that is transferred, as it comes later.
func (w *wait) takeOffer(s signal) *lease.Hold {
	h, _ := w.seat.Given(s.offer, s.offered).(*lease.Hold)
	w.seat = nil
	if s.woken {
		w.queued.Nudge() // it was meant for the entry
	}
	if s.told {
		w.Nudge()
	}
	return h
}

// passed is the end of a wait: with a hold that another call has passed on, or without.
func (w *wait) passed(h *lease.Hold) (*lease.Hold, error) {
	switch {
	case h == nil:
		return nil, w.reason()
	case w.life.Err() != nil:
		_ = h.Unlock() // over already
		return nil, errs.ErrClosed
	}
	return h, nil
}

// nextPause is the poll interval and up to a fifth more, or what the last attempt has found out. It grows while the server answers with errors or not at all.
func (w *wait) nextPause(err error) time.Duration {
	poll := w.Settings.Poll
	if w.rest > 0 {
		w.pause = poll
		return w.rest
	}
	if errors.Is(err, errs.ErrLockAcquiredByOthers) {
		w.pause = poll
	} else {
		w.pause = max(poll, min(2*w.pause, waitqueue.MaxPause))
	}
	return w.pause + rand.N(w.pause/5+1)
}

// reason is why the wait ended without a grant.
func (w *wait) reason() error {
	switch {
	case w.life.Err() != nil:
		return errs.ErrClosed
	case w.Caller.Err() != nil:
		return errs.EndOf(w.Caller, w.last)
	case w.last == nil:
		return fmt.Errorf("block timeout of %v ended before the server's first answer: %w", w.Settings.BlockTimeout, os.ErrDeadlineExceeded)
	}
	return w.last
}

package queue

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// clock is the timer of a receiver. One of its waiting callers keeps it, so
// that all of them together ask once in a period.
type clock struct {
	keeper chan struct{} // held by the caller that keeps the timer
	sooner chan struct{} // has a value if due has changed

	mu  sync.Mutex
	due time.Time // when something is due, as the last answer says; zero if unknown
}

func newClock() *clock {
	return &clock{keeper: make(chan struct{}, 1), sooner: make(chan struct{}, 1)}
}

// set notes when something is due; negative if that is unknown.
func (c *clock) set(next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due = (time.Time{}); next >= 0 {
		c.due = time.Now().Add(next + time.Millisecond/10)
	}
	select {
	case c.sooner <- struct{}{}:
	default: // the keeper has not read the one before
	}
}

// until returns the time until something is due, at most the pause.
func (c *clock) until(pause time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due.IsZero() {
		return pause
	}
	return min(pause, time.Until(c.due))
}

// clear forgets what was due: the caller is about to ask.
func (c *clock) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = time.Time{}
}

// pause returns how long an idle receiver waits without a message.
func (r *receiver) pause() time.Duration {
	if !r.queue.engine.Queue.Reached(r.queue.redis) {
		return unheard + rand.N(unheard/5)
	}
	return pollPeriod - rand.N(pollPeriod/20)
}

// sleep waits until a task may be due, next being what the answer says of that.
// It returns an error if ctx or the client has ended.
func (r *receiver) sleep(ctx context.Context, next time.Duration) error {
	r.clock.set(next)
	select {
	case <-r.wake:
		return nil
	case r.clock.keeper <- struct{}{}:
		return r.keepTime(ctx)
	case <-ctx.Done():
		return errs.EndOf(ctx, nil)
	case <-r.queue.engine.Life.Done():
		return errs.ErrClosed
	}
}

// keepTime is sleep for the caller that keeps the timer.
func (r *receiver) keepTime(ctx context.Context) error {
	defer func() { <-r.clock.keeper }()
	end := time.Now().Add(r.pause())
	for {
		timer := time.NewTimer(r.clock.until(time.Until(end)))
		again, err := r.await(ctx, timer)
		timer.Stop()
		if !again {
			return err
		}
	}
}

// await waits for the timer, a message or an end. It reports whether to wait
// again, for another time.
func (r *receiver) await(ctx context.Context, timer *time.Timer) (again bool, err error) {
	select {
	case <-r.clock.sooner:
		return true, nil
	case <-r.wake:
	case <-timer.C:
		r.clock.clear()
	case <-ctx.Done():
		return false, errs.EndOf(ctx, nil)
	case <-r.queue.engine.Life.Done():
		return false, errs.ErrClosed
	}
	return false, nil
}

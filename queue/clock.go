package queue

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// pollPeriod is how often an idle receiver asks without a message. unheard is
// the same while no message can reach it.
const (
	pollPeriod = time.Second
	unheard    = lockspec.DefaultPollInterval
)

// clock is the timer of a receiver. One of its waiting callers keeps it, so
// that all of them together ask once in a period.
type clock struct {
	queue  *base
	wake   signal        // a task may be due
	keeper chan struct{} // held by the caller that keeps the timer
	sooner signal        // due has changed

	mu  sync.Mutex
	due time.Time // when something is due, as the last answer says; zero if unknown
}

func newClock(q *base, wake signal) *clock {
	return &clock{queue: q, wake: wake, keeper: make(chan struct{}, 1), sooner: newSignal()}
}

// set notes when something is due; negative if that is unknown.
func (c *clock) set(next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due = (time.Time{}); next >= 0 {
		c.due = time.Now().Add(next + time.Millisecond/10)
	}
	c.sooner.notify()
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
func (c *clock) pause() time.Duration {
	if !c.queue.engine.Queue.Reached(c.queue.redis) {
		return unheard + rand.N(unheard/5)
	}
	return pollPeriod - rand.N(pollPeriod/20)
}

// sleep waits until a task may be due, next being what the answer says of that.
// It returns an error if ctx or the client has ended.
func (c *clock) sleep(ctx context.Context, next time.Duration) error {
	c.set(next)
	select {
	case <-c.wake:
		return nil
	case c.keeper <- struct{}{}:
		return c.keepTime(ctx)
	case <-ctx.Done():
		return errs.EndOf(ctx, nil)
	case <-c.queue.engine.Life.Done():
		return errs.ErrClosed
	}
}

// keepTime is sleep for the caller that keeps the timer.
func (c *clock) keepTime(ctx context.Context) error {
	defer func() { <-c.keeper }()
	end := time.Now().Add(c.pause())
	for {
		timer := time.NewTimer(c.until(time.Until(end)))
		again, err := c.await(ctx, timer)
		timer.Stop()
		if !again {
			return err
		}
	}
}

// await waits for the timer, a message or an end. It reports whether to wait
// again, for another time.
func (c *clock) await(ctx context.Context, timer *time.Timer) (again bool, err error) {
	select {
	case <-c.sooner:
		return true, nil
	case <-c.wake:
	case <-timer.C:
		c.clear()
	case <-ctx.Done():
		return false, errs.EndOf(ctx, nil)
	case <-c.queue.engine.Life.Done():
		return false, errs.ErrClosed
	}
	return false, nil
}

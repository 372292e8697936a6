package conns

import (
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// A call on the shared connection waits on one channel, which is used again by
// other calls. A timer of the connection wakes the calls whose time is over.
// With a timer and a few more channels for each call, the wait cost more than
// the I/O.

// newSharedCall returns a call whose caller waits until then. It may be one of
// the client's that have ended, with its channel. That may still get the value
// of an earlier use. So a caller that is woken looks whether its call is done,
// or its time over.
//
// A channel belongs to one client: none that was made in a bubble of
// testing/synctest may be used outside.
func newSharedCall(ended *sync.Pool, until time.Time) *Call {
	c, _ := ended.Get().(*Call)
	if c == nil {
		c = &Call{wake: make(chan struct{}, 1), pool: ended}
	}
	c.until = until
	return c
}

// free gives a call to other callers, and returns its result. It must have
// ended: then only its caller has it.
func (c *Call) free() driver.Result {
	outcome := c.outcome
	c.state.Store(callWaiting)
	c.ended.Store(false)
	c.outcome, c.answer, c.late = driver.Result{}, driver.Late{}, false
	c.pool.Put(c)
	return outcome
}

// end sets the outcome of a call on the shared connection.
func (c *Call) end(o driver.Result) {
	c.set(o)
	wake := c.wake // the caller may use it again once the call has ended
	c.ended.Store(true)
	nudge(wake)
}

func nudge(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default: // it has a value
	}
}

// wait waits for the end of the call, and returns its result. If ctx or the
// life of the driver ends first, or the time of the call, it returns why.
func (c *Call) wait(ctx context.Context, life <-chan struct{}) (driver.Result, error) {
	for !c.ended.Load() {
		if why := c.pause(ctx, life); why != nil {
			return driver.Result{}, why
		}
	}
	return c.free(), nil
}

// pause returns nil when the call may have ended.
func (c *Call) pause(ctx context.Context, life <-chan struct{}) error {
	left := ctx.Done()
	if left == nil && life == nil {
		<-c.wake
	} else {
		select {
		case <-c.wake:
		case <-left:
			return driver.ErrAbandoned
		case <-life:
			return errs.ErrClosed
		}
	}
	if !c.ended.Load() && !time.Now().Before(c.until) {
		return driver.ErrTimeout
	}
	return nil
}

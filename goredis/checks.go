package goredis

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/tasks"
)

const (
	alarmPause = 250 * time.Millisecond // between two checks after a failure, on average
	checkLimit = 5 * time.Second
	closeWait  = driver.CloseWait // for a function of rdb that ignores its context
)

// checks is the goroutine that checks which servers are masters, from the first
// request on, and the callers that wait for it.
type checks struct {
	life    context.Context // cancelled by close
	end     context.CancelFunc
	tasks   tasks.Group
	begin   sync.Once
	changes chan struct{}
	wake    chan struct{} // for a check now

	mu      sync.Mutex
	err     error         // of the last check
	checked chan struct{} // closed by the next check
}

func newChecks() *checks {
	c := &checks{changes: make(chan struct{}, 1), wake: make(chan struct{}, 1), checked: make(chan struct{})}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// await asks for a check, and waits for its end.
func (c *checks) await(ctx context.Context, checked <-chan struct{}) error {
	signal(c.wake)
	select {
	case <-checked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.life.Done():
		return relock.ErrClosed
	}
}

// conclude ends a check; mu is held.
func (c *checks) conclude(err error) {
	c.err = err
	close(c.checked)
	c.checked = make(chan struct{})
}

// rest waits for the pause to end, or for wake unless it is nil. It reports
// whether there is another check.
func (c *checks) rest(pause time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-wake:
	case <-timer.C:
	case <-c.life.Done():
		return false
	}
	return true
}

// shortPause returns a pause between two checks after a failure. Clients must
// not check at the same time.
func shortPause() time.Duration { return alarmPause/2 + rand.N(alarmPause) }

func (c *checks) close() {
	c.end()
	c.tasks.WaitFor(closeWait)
}

// signal notifies the receiver, unless it has a notice that it has not read.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

package locktest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
)

// slowAnswer is how long an answer takes that comes in time all the same.
const slowAnswer = 100 * time.Millisecond

// Slow delays the answer to the first request that matches, and loses all later ones.
func (c *Cell) Slow(match faults.Match) {
	c.Proxy.On(match, 1, faults.Delay(slowAnswer))
	c.Proxy.On(match, faults.Every, faults.DropRequest)
}

// RequireBelief checks that the belief ends before a lease that begins when the proxy got the first request that matches.
func (c *Cell) RequireBelief(h relock.Hold, match faults.Match, length time.Duration) {
	c.Helper()
	until := h.ValidUntil()
	require.False(c, until.IsZero(), "lost")
	for _, request := range c.Proxy.Seen() {
		if match(request.Args) {
			latest := request.At.Add(length - lease.Drift(length))
			require.False(c, until.After(latest), "believed for %v too long", until.Sub(latest))
			return
		}
	}
	require.FailNow(c, "there was no such request")
}

// lateDriver makes the first answers look as if they had taken an hour, as they do for a process that was stopped.
type lateDriver struct {
	driver.Driver
	late atomic.Int32 // answers that are left to do so
}

func (d *lateDriver) Send(ctx context.Context, limit driver.Limits, r driver.Request) driver.Result {
	o := d.Driver.Send(ctx, limit, r)
	if o.Err == nil && d.late.Add(-1) >= 0 {
		o.Sent = o.Sent.Add(-time.Hour)
	}
	return o
}

// LateAnswers makes the next answers to the client late.
func (c *Cell) LateAnswers(n int32) {
	d := &lateDriver{Driver: Engine(c.Client).Driver}
	d.late.Store(n)
	Engine(c.Client).Driver = d
}

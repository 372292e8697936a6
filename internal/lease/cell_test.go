package lease_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
)

// delayThenLose delays the answer to the first request that matches, which
// comes in time nevertheless, and loses all later ones.
func delayThenLose(c *locktest.FaultBench, match faults.Match) {
	c.Proxy.On(match, 1, faults.Delay(100*time.Millisecond))
	c.Proxy.On(match, faults.Every, faults.DropRequest)
}

// lateDriver makes the first answers look as if they had taken an hour, as for
// a process that was stopped.
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

// lateAnswers makes the next n answers to a client late.
func lateAnswers(c *relock.Client, n int32) {
	d := &lateDriver{Driver: locktest.Engine(c).Driver}
	d.late.Store(n)
	locktest.Engine(c).Driver = d
}

// requireValidity checks that a hold is not valid for longer than a lease that
// begins when the proxy got the first request that matches.
func requireValidity(c *locktest.FaultBench, h relock.Hold, match faults.Match, length time.Duration) {
	c.Helper()
	until := h.ValidUntil()
	require.False(c, until.IsZero(), "lost")
	for _, request := range c.Proxy.Seen() {
		if match(request.Args) {
			latest := request.At.Add(length - lockspec.Drift(length))
			require.False(c, until.After(latest), "valid for %v too long", until.Sub(latest))
			return
		}
	}
	require.FailNow(c, "there was no such request")
}

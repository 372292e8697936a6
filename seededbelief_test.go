package relock

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// What is believed when answers are slow, or come too late.

// slowAnswer is how long an answer takes that comes in time all the same.
const slowAnswer = 100 * time.Millisecond

// However long an answer takes, belief counts from before the request was at the server.
func TestBeliefCountsFromTheSending(t *testing.T) {
	seededAll(t, map[string]seededRun{
		"acquire": func(c *cell, kind string, r requests) {
			c.slow(r.acquire)
			c.requireBelief(c.take(kind), r.acquire, cellLease)
		},
		"script or re-entry": func(c *cell, kind string, r requests) {
			if kind == "RedisLock" {
				c.proxy.On(r.acquire, 1, faults.CutBefore)
			} else {
				c.take(kind)
			}
			c.slow(r.again)
			c.requireBelief(c.take(kind), r.again, cellLease)
		},
		"renewal": func(c *cell, kind string, r requests) {
			c.slow(r.renew)
			h := c.take(kind, WithWatchdog(seededLease))
			before := h.ValidUntil()
			c.waitFor(cellPatience, func() bool { return h.ValidUntil() != before }, "not renewed")
			c.requireBelief(h, r.renew, seededLease)
		},
		"Extend": func(c *cell, kind string, r requests) {
			h := c.take(kind, WithExpiry(cellLease))
			c.slow(r.renew)
			require.NoError(c, h.Extend(c.Context(), 2*cellLease))
			c.requireBelief(h, r.renew, 2*cellLease)
		},
	})
}

// slow delays the answer to the first request that matches, and loses all later ones.
func (c *cell) slow(match faults.Match) {
	c.proxy.On(match, 1, faults.Delay(slowAnswer))
	c.proxy.On(match, faults.Every, faults.DropRequest)
}

// requireBelief checks that the belief ends before a lease that begins when the proxy got the first request that matches.
func (c *cell) requireBelief(h Hold, match faults.Match, length time.Duration) {
	c.Helper()
	until := h.ValidUntil()
	require.False(c, until.IsZero(), "lost")
	for _, request := range c.proxy.Seen() {
		if match(request.Args) {
			latest := request.At.Add(length - lease.Drift(length))
			require.False(c, until.After(latest), "believed for %v too long", until.Sub(latest))
			return
		}
	}
	require.FailNow(c, "there was no such request")
}

// An answer that comes when the belief is over, though no timer has fired, revives nothing.
func TestLateAnswerRevivesNothing(t *testing.T) {
	t.Parallel()
	h, err := NewRedisLock("k", newTestClient(t, redistest.Shared(t)), WithExpiry(2400*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	l := h.(hold).level.Lease()
	l.StopTimer()
	<-time.After(time.Until(l.State().ValidUntil)) // the belief's end is what is tested
	require.ErrorIs(t, l.Renewed(time.Now(), time.Minute), ErrLockLost)
	require.ErrorIs(t, h.Err(), ErrLockLost)
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

// lateAnswers makes the next answers to the client late.
func (c *cell) lateAnswers(n int32) {
	d := &lateDriver{Driver: c.client.engine.Driver}
	d.late.Store(n)
	c.client.engine.Driver = d
}

// A plain lock whose SET and whose script were answered after their leases is given back twice, and taken with a third value: what was
// given back is not used again.
func TestGrantAfterItsLease(t *testing.T) {
	t.Parallel()
	c := newCell(t, newFaultServer(t))
	release := requestsOf["RedisLock"].release
	c.lateAnswers(2)
	c.proxy.On(release, faults.Every, faults.HoldOnly)
	h := c.take("RedisLock", WithBlock())
	require.NoError(t, h.Err())
	require.True(t, c.proxy.Await(release, 2, cellPatience), "given back")
	before := c.bench.State().Content
	c.proxy.Release()
	require.Equal(t, before, c.bench.State().Content)
	require.NoError(t, h.Err())
}

// A reentrant one is not taken again under the hold id that was given back.
func TestReentrantGrantAfterItsLease(t *testing.T) {
	c := newCell(t, newFaultServer(t))
	c.lateAnswers(1)
	c.proxy.On(requestsOf["ReentrantLock"].release, 1, faults.HoldOnly)
	ctx, cancel := context.WithTimeout(t.Context(), cellPatience)
	defer cancel()
	lock := owned("me", NewReentrantLock(cellKey, c.client, WithBlock()))
	result := testkit.Async(t, func() error { return lock.Lock(ctx) })
	require.True(t, c.proxy.Await(faults.Script(script.Enqueue.SHA), 2, cellPatience/2), "it has to wait for its own release")
	late := c.bench.State().Content.(map[string]string)["hold"]
	c.proxy.Release()
	require.NoError(t, testkit.ResultWithin(t, result, cellPatience))
	require.Equal(t, 1, c.levels())
	require.NotEqual(t, late, c.bench.State().Content.(map[string]string)["hold"])
	require.NoError(t, lock.Unlock(t.Context()))
}

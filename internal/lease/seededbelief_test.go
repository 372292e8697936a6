package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// What is believed when answers are slow, or come too late.

// However long an answer takes, belief counts from before the request was at the server.
func TestBeliefCountsFromTheSending(t *testing.T) {
	seededAll(t, map[string]seededRun{
		"acquire": func(c *locktest.Cell, kind string, r requests) {
			c.Slow(r.acquire)
			c.RequireBelief(c.Take(kind), r.acquire, locktest.CellLease)
		},
		"script or re-entry": func(c *locktest.Cell, kind string, r requests) {
			if kind == "RedisLock" {
				c.Proxy.On(r.acquire, 1, faults.CutBefore)
			} else {
				c.Take(kind)
			}
			c.Slow(r.again)
			c.RequireBelief(c.Take(kind), r.again, locktest.CellLease)
		},
		"renewal": func(c *locktest.Cell, kind string, r requests) {
			c.Slow(r.renew)
			h := c.Take(kind, relock.WithWatchdog(seededLease))
			before := h.ValidUntil()
			c.WaitFor(locktest.CellPatience, func() bool { return h.ValidUntil() != before }, "not renewed")
			c.RequireBelief(h, r.renew, seededLease)
		},
		"Extend": func(c *locktest.Cell, kind string, r requests) {
			h := c.Take(kind, relock.WithExpiry(locktest.CellLease))
			c.Slow(r.renew)
			require.NoError(c, h.Extend(c.Context(), 2*locktest.CellLease))
			c.RequireBelief(h, r.renew, 2*locktest.CellLease)
		},
	})
}

// An answer that comes when the belief is over, though no timer has fired, revives nothing.
func TestLateAnswerRevivesNothing(t *testing.T) {
	t.Parallel()
	h, err := relock.NewRedisLock("k", locktest.NewTestClient(t, redistest.Shared(t)), relock.WithExpiry(2400*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	l := locktest.Level(h).Lease()
	l.StopTimer()
	<-time.After(time.Until(l.State().ValidUntil)) // the belief's end is what is tested
	require.ErrorIs(t, l.Renewed(time.Now(), time.Minute), relock.ErrLockLost)
	require.ErrorIs(t, h.Err(), relock.ErrLockLost)
}

// A plain lock whose SET and whose script were answered after their leases is given back twice, and taken with a third value: what was
// given back is not used again.
func TestGrantAfterItsLease(t *testing.T) {
	t.Parallel()
	c := locktest.NewCell(t, locktest.NewFaultServer(t))
	release := requestsOf["RedisLock"].release
	c.LateAnswers(2)
	c.Proxy.On(release, faults.Every, faults.HoldOnly)
	h := c.Take("RedisLock", relock.WithBlock())
	require.NoError(t, h.Err())
	require.True(t, c.Proxy.Await(release, 2, locktest.CellPatience), "given back")
	before := c.Bench.State().Content
	c.Proxy.Release()
	require.Equal(t, before, c.Bench.State().Content)
	require.NoError(t, h.Err())
}

// A reentrant one is not taken again under the hold id that was given back.
func TestReentrantGrantAfterItsLease(t *testing.T) {
	c := locktest.NewCell(t, locktest.NewFaultServer(t))
	c.LateAnswers(1)
	c.Proxy.On(requestsOf["ReentrantLock"].release, 1, faults.HoldOnly)
	ctx, cancel := context.WithTimeout(t.Context(), locktest.CellPatience)
	defer cancel()
	lock := relock.NewReentrantLock(locktest.CellKey, c.Client, relock.WithBlock(), relock.WithOwner("me"))
	result := testkit.Async(t, func() error { return lock.Lock(ctx) })
	require.True(t, c.Proxy.Await(faults.Script(script.Enqueue.SHA), 2, locktest.CellPatience/2), "it has to wait for its own release")
	late := c.Bench.State().Content.(map[string]string)["hold"]
	c.Proxy.Release()
	require.NoError(t, testkit.ResultWithin(t, result, locktest.CellPatience))
	require.Equal(t, 1, c.Levels())
	require.NotEqual(t, late, c.Bench.State().Content.(map[string]string)["hold"])
	require.NoError(t, lock.Unlock(t.Context()))
}

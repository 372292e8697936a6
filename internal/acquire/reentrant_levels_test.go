package acquire_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// Re-entry into a lost hold is ErrLockLost until its outermost Unlock.
func TestReentryIntoALostHold(t *testing.T) {
	b := newBench(t)
	l := relock.NewReentrantLock("k", b.client)
	h := take(t, l.Acquire)
	require.NoError(t, l.Lock(t.Context()))
	b.forget("k")

	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrLockLost, "found by the re-entry, which does not revive it")
	b.requireFree("k")
	require.ErrorIs(t, context.Cause(h.Context()), relock.ErrLockLost)
	require.ErrorIs(t, relock.NewReentrantLock("k", b.client, relock.WithBlock()).Lock(t.Context()), relock.ErrLockLost, "immediately, also if it may wait")
	require.ErrorIs(t, <-testkit.Async(t, func() error { return l.Lock(context.WithoutCancel(h.Context())) }), relock.ErrLockLost, "the same owner by the context")

	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrLockLost, "one level is left")
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
	require.NoError(t, l.Lock(t.Context()))
	b.requireLevels("k", 1)
	require.NoError(t, l.Unlock(t.Context()))

	h = take(t, l.Acquire)
	require.NoError(t, l.Lock(t.Context()))
	b.forget("k")
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost, "found by an inner Unlock")
	require.ErrorIs(t, h.Err(), relock.ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
}

// The maximum hold of one level ends that level. The others go on, and the
// count is right.
func TestMaxHoldOfOneLevel(t *testing.T) {
	b := newBench(t)
	l := relock.NewReentrantLock("k", b.client)
	outer := take(t, l.Acquire)
	inner := take(t, relock.NewReentrantLock("k", b.client, relock.WithMaxHold(time.Second)).Acquire)
	requireEnds(t, inner, relock.ErrMaxHold)
	require.NoError(t, outer.Err())
	owner := locktest.Engine(b.client).Identity.Goroutine()
	testkit.Eventually(t, time.Second, func() bool {
		n, err := redis.Int(b.server.Try(t, "HGET", b.key("k"), owner))
		return err == nil && n == 1
	}, "the server counts one level")
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrMaxHold, "the newest level is the one that has ended")
	require.NoError(t, outer.Err())
	require.NoError(t, l.Unlock(t.Context()))
	b.requireFree("k")
}

// The outer level ended by its maximum hold, and the inner one is unlocked:
// nothing is held, but the outer Unlock is still owed.
func TestMaxHoldOfTheOuterLevel(t *testing.T) {
	b := newBench(t)
	outer := take(t, relock.NewReentrantLock("k", b.client, relock.WithMaxHold(time.Second)).Acquire)
	l := relock.NewReentrantLock("k", b.client)
	require.NoError(t, l.Lock(t.Context()))
	requireEnds(t, outer, relock.ErrMaxHold)
	require.NoError(t, l.Unlock(t.Context()))
	b.requireFree("k")
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrMaxHold)
	require.NoError(t, l.Lock(t.Context()))
}

func TestMinHoldOfALevel(t *testing.T) {
	b := newBench(t)
	l := relock.NewReentrantLock("k", b.client)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, relock.NewReentrantLock("k", b.client, relock.WithMinHold(5*time.Second)).Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	require.Greater(t, b.ttl("k"), 20*time.Second, "the outer level is still held")
	require.NoError(t, l.Unlock(t.Context()))
	require.InDelta(t, 5*time.Second, b.ttl("k"), float64(time.Second))
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
}

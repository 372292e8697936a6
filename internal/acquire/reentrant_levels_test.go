package acquire_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestLevelsEndInAnyOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c)
	var holds []relock.Hold
	for range 3 {
		h, err := l.Acquire(t.Context())
		require.NoError(t, err)
		holds = append(holds, h)
	}
	require.NoError(t, holds[0].Unlock(t.Context()))
	require.ErrorIs(t, holds[0].Err(), relock.ErrNotHeld)
	require.NoError(t, holds[1].Err())
	require.NoError(t, holds[2].Err())
	locktest.RequireCount(t, s, c, "k", 2)
	require.NoError(t, l.Unlock(t.Context()), "the newest level")
	require.ErrorIs(t, holds[2].Err(), relock.ErrNotHeld)
	require.ErrorIs(t, holds[2].Unlock(t.Context()), relock.ErrNotHeld)
	require.NoError(t, <-testkit.Async(t, func() error { return holds[1].Unlock(t.Context()) }), "from any goroutine")
	locktest.RequireFree(t, s, c, "k")
}

// A level with a shorter lease does not shorten what is around it.
func TestReentryDoesNotShorten(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	outer, err := relock.NewReentrantLock("k", c, relock.WithExpiry(30*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	until := outer.ValidUntil()
	inner, err := relock.NewReentrantLock("k", c, relock.WithExpiry(3*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	require.Greater(t, locktest.Pttl(t, s, c, "k"), 25*time.Second)
	require.Equal(t, until, outer.ValidUntil())
	require.NoError(t, inner.Unlock(t.Context()))
	require.Greater(t, locktest.Pttl(t, s, c, "k"), 25*time.Second)
	require.NoError(t, outer.Err())
}

func TestReentryWithALongerLeaseLengthens(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	outer, err := relock.NewReentrantLock("k", c, relock.WithExpiry(3*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, relock.NewReentrantLock("k", c, relock.WithExpiry(30*time.Second)).Lock(t.Context()))
	require.Greater(t, locktest.Pttl(t, s, c, "k"), 27*time.Second)
	require.Greater(t, time.Until(outer.ValidUntil()), 27*time.Second)
}

// An inner Unlock neither frees nor shortens nor stops the renewal of the outer level.
func TestInnerUnlockLeavesTheOuterRenewed(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	const lease = 2400 * time.Millisecond
	l := relock.NewReentrantLock("k", c, relock.WithWatchdog(lease))
	outer, err := l.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	locktest.StaysHeld(t, s, c, outer, 3*lease)
	require.NoError(t, outer.Unlock(t.Context()))
	locktest.RequireFree(t, s, c, "k")
}

// A watched level inside a fixed one: the renewal ends with it, and belief runs out as last set.
func TestRenewalEndsWithTheLastWatchedLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	const lease = 2400 * time.Millisecond
	outer, err := relock.NewReentrantLock("k", c, relock.WithExpiry(lease)).Acquire(t.Context())
	require.NoError(t, err)
	inner, err := relock.NewReentrantLock("k", c, relock.WithWatchdog(lease)).Acquire(t.Context())
	require.NoError(t, err)
	locktest.StaysHeld(t, s, c, outer, 3*lease)
	require.NoError(t, inner.Unlock(t.Context()))
	require.ErrorIs(t, testkit.EndedWithin(t, outer.Context(), lease*7/4), relock.ErrLockLost)
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrLockLost)
}

// Frequent short levels must not put off the renewal of the outer one.
func TestShortLevelsDoNotDelayTheRenewal(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	outer, err := relock.NewReentrantLock("k", c, relock.WithWatchdog(12*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	short := relock.NewReentrantLock("k", c, relock.WithWatchdog(4500*time.Millisecond)) // believed in for less than is asked for below
	for end := time.Now().Add(12500 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		require.NoError(t, short.Do(t.Context(), locktest.Nothing))
		require.Greater(t, time.Until(outer.ValidUntil()), 5*time.Second)
	}
	require.NoError(t, outer.Unlock(t.Context()))
}

// Re-entry into a lost hold is ErrLockLost until its outermost Unlock.
func TestReentryIntoALostHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c)
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Lock(t.Context()))
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))

	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrLockLost, "found by the re-entry, which does not revive it")
	locktest.RequireFree(t, s, c, "k")
	require.ErrorIs(t, context.Cause(h.Context()), relock.ErrLockLost)
	require.ErrorIs(t, relock.NewReentrantLock("k", c, relock.WithBlock()).Lock(t.Context()), relock.ErrLockLost, "at once, also when it may wait")
	require.ErrorIs(t, <-testkit.Async(t, func() error { return l.Lock(context.WithoutCancel(h.Context())) }), relock.ErrLockLost, "the same owner by the context")

	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrLockLost, "one level is left")
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
	require.NoError(t, l.Lock(t.Context()))
	locktest.RequireCount(t, s, c, "k", 1)
	require.NoError(t, l.Unlock(t.Context()))
}

func TestInnerUnlockFindsTheLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c)
	outer, err := l.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Lock(t.Context()))
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, outer.Err(), relock.ErrLockLost, "the server has said so")
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrLockLost)
}

// The maximum hold of one level ends that level; the others go on, and the count is right.
func TestMaxHoldOfOneLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c)
	outer, err := l.Acquire(t.Context())
	require.NoError(t, err)
	inner, err := relock.NewReentrantLock("k", c, relock.WithMaxHold(time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, testkit.EndedWithin(t, inner.Context(), 5*time.Second), relock.ErrMaxHold)
	require.NoError(t, outer.Err())
	owner := locktest.Engine(c).Identity.Goroutine()
	testkit.Eventually(t, time.Second, func() bool {
		n, err := redis.Int(s.Try(t, "HGET", locktest.KeyOf(c, "k"), owner))
		return err == nil && n == 1
	}, "the server counts one level")
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrMaxHold, "the newest level is the one that has ended")
	require.NoError(t, outer.Err())
	require.NoError(t, l.Unlock(t.Context()))
	locktest.RequireFree(t, s, c, "k")
}

// The outer level ended by its maximum hold, the inner one unlocked: nothing is held, but the outer Unlock is still owed.
func TestMaxHoldOfTheOuterLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	outer, err := relock.NewReentrantLock("k", c, relock.WithMaxHold(time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	l := relock.NewReentrantLock("k", c)
	require.NoError(t, l.Lock(t.Context()))
	_ = testkit.EndedWithin(t, outer.Context(), 5*time.Second)
	require.NoError(t, l.Unlock(t.Context()))
	locktest.RequireFree(t, s, c, "k")
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrMaxHold)
	require.NoError(t, l.Lock(t.Context()))
}

func TestMinHoldOfALevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, relock.NewReentrantLock("k", c, relock.WithMinHold(5*time.Second)).Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	require.Greater(t, locktest.Pttl(t, s, c, "k"), 20*time.Second, "the outer level is still held")
	require.NoError(t, l.Unlock(t.Context()))
	require.InDelta(t, 5*time.Second, locktest.Pttl(t, s, c, "k"), float64(time.Second))
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
}

package relock

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestLevelsEndInAnyOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c)
	var holds []Hold
	for range 3 {
		h, err := l.Acquire(t.Context())
		require.NoError(t, err)
		holds = append(holds, h)
	}
	require.NoError(t, holds[0].Unlock(t.Context()))
	require.ErrorIs(t, holds[0].Err(), ErrNotHeld)
	require.NoError(t, holds[1].Err())
	require.NoError(t, holds[2].Err())
	requireCount(t, s, c, "k", 2)
	require.NoError(t, l.Unlock(t.Context()), "the newest level")
	require.ErrorIs(t, holds[2].Err(), ErrNotHeld)
	require.ErrorIs(t, holds[2].Unlock(t.Context()), ErrNotHeld)
	require.NoError(t, <-testkit.Async(t, func() error { return holds[1].Unlock(t.Context()) }), "from any goroutine")
	requireFree(t, s, c, "k")
}

// A level with a shorter lease does not shorten what is around it.
func TestReentryDoesNotShorten(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	outer, err := NewReentrantLock("k", c, WithExpiry(30*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	until := outer.ValidUntil()
	inner, err := NewReentrantLock("k", c, WithExpiry(3*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	require.Greater(t, pttl(t, s, c, "k"), 25*time.Second)
	require.Equal(t, until, outer.ValidUntil())
	require.NoError(t, inner.Unlock(t.Context()))
	require.Greater(t, pttl(t, s, c, "k"), 25*time.Second)
	require.NoError(t, outer.Err())
}

func TestReentryWithALongerLeaseLengthens(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	outer, err := NewReentrantLock("k", c, WithExpiry(3*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, NewReentrantLock("k", c, WithExpiry(30*time.Second)).Lock(t.Context()))
	require.Greater(t, pttl(t, s, c, "k"), 27*time.Second)
	require.Greater(t, time.Until(outer.ValidUntil()), 27*time.Second)
}

// An inner Unlock neither frees nor shortens nor stops the renewal of the outer level.
func TestInnerUnlockLeavesTheOuterRenewed(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	const lease = 2400 * time.Millisecond
	l := NewReentrantLock("k", c, WithWatchdog(lease))
	outer, err := l.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	staysHeld(t, s, c, outer, 3*lease)
	require.NoError(t, outer.Unlock(t.Context()))
	requireFree(t, s, c, "k")
}

// A watched level inside a fixed one: the renewal ends with it, and belief runs out as last set.
func TestRenewalEndsWithTheLastWatchedLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	const lease = 2400 * time.Millisecond
	outer, err := NewReentrantLock("k", c, WithExpiry(lease)).Acquire(t.Context())
	require.NoError(t, err)
	inner, err := NewReentrantLock("k", c, WithWatchdog(lease)).Acquire(t.Context())
	require.NoError(t, err)
	staysHeld(t, s, c, outer, 3*lease)
	require.NoError(t, inner.Unlock(t.Context()))
	require.ErrorIs(t, testkit.EndedWithin(t, outer.Context(), lease*7/4), ErrLockLost)
	require.ErrorIs(t, outer.Unlock(t.Context()), ErrLockLost)
}

// Frequent short levels must not put off the renewal of the outer one.
func TestShortLevelsDoNotDelayTheRenewal(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	outer, err := NewReentrantLock("k", c, WithWatchdog(12*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	short := NewReentrantLock("k", c, WithWatchdog(4500*time.Millisecond)) // believed in for less than is asked for below
	for end := time.Now().Add(12500 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		require.NoError(t, short.Do(t.Context(), nothing))
		require.Greater(t, time.Until(outer.ValidUntil()), 5*time.Second)
	}
	require.NoError(t, outer.Unlock(t.Context()))
}

// staysHeld looks every few milliseconds, and leaves the machine to the other tests between: a hold that was lost stays lost.
func staysHeld(t *testing.T, s *redistest.Server, c *Client, h Hold, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		require.NoError(t, h.Err())
		requireHeld(t, s, c, h.Key())
	}
}

// Re-entry into a lost hold is ErrLockLost until its outermost Unlock.
func TestReentryIntoALostHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c)
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Lock(t.Context()))
	s.Do(t, "DEL", keyOf(c, "k"))

	require.ErrorIs(t, l.Lock(t.Context()), ErrLockLost, "found by the re-entry, which does not revive it")
	requireFree(t, s, c, "k")
	require.ErrorIs(t, context.Cause(h.Context()), ErrLockLost)
	require.ErrorIs(t, NewReentrantLock("k", c, WithBlock()).Lock(t.Context()), ErrLockLost, "at once, also when it may wait")
	require.ErrorIs(t, <-testkit.Async(t, func() error { return l.Lock(context.WithoutCancel(h.Context())) }), ErrLockLost, "the same owner by the context")

	require.ErrorIs(t, l.Unlock(t.Context()), ErrLockLost)
	require.ErrorIs(t, l.Lock(t.Context()), ErrLockLost, "one level is left")
	require.ErrorIs(t, l.Unlock(t.Context()), ErrLockLost)
	require.ErrorIs(t, l.Unlock(t.Context()), ErrNotHeld)
	require.NoError(t, l.Lock(t.Context()))
	requireCount(t, s, c, "k", 1)
	require.NoError(t, l.Unlock(t.Context()))
}

func TestInnerUnlockFindsTheLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c)
	outer, err := l.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Lock(t.Context()))
	s.Do(t, "DEL", keyOf(c, "k"))
	require.ErrorIs(t, l.Unlock(t.Context()), ErrLockLost)
	require.ErrorIs(t, outer.Err(), ErrLockLost, "the server has said so")
	require.ErrorIs(t, outer.Unlock(t.Context()), ErrLockLost)
}

// The maximum hold of one level ends that level; the others go on, and the count is right.
func TestMaxHoldOfOneLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c)
	outer, err := l.Acquire(t.Context())
	require.NoError(t, err)
	inner, err := NewReentrantLock("k", c, WithMaxHold(time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, testkit.EndedWithin(t, inner.Context(), 5*time.Second), ErrMaxHold)
	require.NoError(t, outer.Err())
	owner := c.engine.Identity.Goroutine()
	testkit.Eventually(t, time.Second, func() bool {
		n, err := redis.Int(s.Try(t, "HGET", keyOf(c, "k"), owner))
		return err == nil && n == 1
	}, "the server counts one level")
	require.ErrorIs(t, l.Unlock(t.Context()), ErrMaxHold, "the newest level is the one that has ended")
	require.NoError(t, outer.Err())
	require.NoError(t, l.Unlock(t.Context()))
	requireFree(t, s, c, "k")
}

// The outer level ended by its maximum hold, the inner one unlocked: nothing is held, but the outer Unlock is still owed.
func TestMaxHoldOfTheOuterLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	outer, err := NewReentrantLock("k", c, WithMaxHold(time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	l := NewReentrantLock("k", c)
	require.NoError(t, l.Lock(t.Context()))
	_ = testkit.EndedWithin(t, outer.Context(), 5*time.Second)
	require.NoError(t, l.Unlock(t.Context()))
	requireFree(t, s, c, "k")
	require.ErrorIs(t, l.Lock(t.Context()), ErrLockLost)
	require.ErrorIs(t, outer.Unlock(t.Context()), ErrMaxHold)
	require.NoError(t, l.Lock(t.Context()))
}

func TestMinHoldOfALevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, NewReentrantLock("k", c, WithMinHold(5*time.Second)).Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	require.Greater(t, pttl(t, s, c, "k"), 20*time.Second, "the outer level is still held")
	require.NoError(t, l.Unlock(t.Context()))
	require.InDelta(t, 5*time.Second, pttl(t, s, c, "k"), float64(time.Second))
	require.ErrorIs(t, l.TryLock(t.Context()), ErrLockAcquiredByOthers)
}

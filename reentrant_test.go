package relock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// Packages that each make their own object share the hold of their goroutine.
func TestNesting(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	other := NewReentrantLock("k", sibling(t, s, c))
	for depth := 1; depth <= 5; depth++ {
		require.NoError(t, NewReentrantLock("k", c).Lock(t.Context()))
		requireCount(t, s, c, "k", depth)
	}
	for depth := 4; depth >= 1; depth-- {
		require.NoError(t, NewReentrantLock("k", c).Unlock(t.Context()))
		requireCount(t, s, c, "k", depth)
		require.ErrorIs(t, other.TryLock(t.Context()), ErrLockAcquiredByOthers)
	}
	require.NoError(t, NewReentrantLock("k", c).Unlock(t.Context()))
	requireFree(t, s, c, "k")
	require.ErrorIs(t, NewReentrantLock("k", c).Unlock(t.Context()), ErrNotHeld)
	require.NoError(t, other.TryLock(t.Context()))
}

func TestNestingTenThousandLevels(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c)
	for range 10_000 {
		require.NoError(t, l.Lock(t.Context()))
	}
	requireCount(t, s, c, "k", 10_000)
	for range 9_999 {
		require.NoError(t, l.Unlock(t.Context()))
	}
	requireCount(t, s, c, "k", 1)
	require.NoError(t, l.Unlock(t.Context()))
	requireFree(t, s, c, "k")
	require.Empty(t, c.owners)
	require.Empty(t, c.leases)
}

func TestAnotherGoroutineIsAnotherOwner(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c)
	require.NoError(t, l.Lock(t.Context()))
	require.ErrorIs(t, <-async(t, func() error { return l.TryLock(t.Context()) }), ErrLockAcquiredByOthers)
	require.ErrorIs(t, <-async(t, func() error { return l.Unlock(t.Context()) }), ErrNotHeld)
	requireCount(t, s, c, "k", 1)
}

// Goroutines that are started inside Do with its context, or with the context of the hold, are the same owner.
func TestContextCarriesTheOwner(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c)
	require.NoError(t, l.Do(t.Context(), func(ctx context.Context) error {
		h, ok := HoldFromContext(ctx, "k")
		require.True(t, ok)
		for _, ctx := range []context.Context{ctx, h.Context()} {
			require.NoError(t, <-async(t, func() error {
				if err := l.Lock(ctx); err != nil {
					return err
				}
				requireCount(t, s, c, "k", 2)
				return l.Unlock(ctx)
			}))
		}
		requireCount(t, s, c, "k", 1)
		return nil
	}))
	requireFree(t, s, c, "k")
}

func TestOwnerOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c, WithOwner("of the lock"))
	id := func(ctx context.Context) string {
		id, err := l.ownerID(ctx, reentrantKind)
		require.NoError(t, err)
		return id
	}
	require.Equal(t, c.identity.goroutine(), func() string {
		id, _ := NewReentrantLock("k", c).ownerID(t.Context(), reentrantKind)
		return id
	}())
	require.Equal(t, c.identity.named("of the lock"), id(t.Context()))
	named := ContextWithOwner(t.Context(), "of the context")
	require.Equal(t, c.identity.named("of the context"), id(named))

	h, err := NewReentrantLock("k", c, WithOwner("holder")).Acquire(t.Context())
	require.NoError(t, err)
	inside := ContextWithOwner(h.Context(), "of the context")
	require.Equal(t, c.identity.named("holder"), id(inside), "a live hold comes first")
	require.NoError(t, h.Unlock(t.Context()))
	require.Equal(t, c.identity.named("of the context"), id(inside), "one that is over does not count")

	_, err = l.ownerID(ContextWithOwner(t.Context(), ""), reentrantKind)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorIs(t, l.Lock(ContextWithOwner(t.Context(), "")), ErrInvalid)
}

// A hold of another name, client or kind in the context is no owner of this lock.
func TestHoldsOfOthersInTheContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	other := sibling(t, s, c)
	h, err := NewReentrantLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, NewReentrantLock("k", other).TryLock(h.Context()), ErrLockAcquiredByOthers)
	require.NoError(t, NewReentrantLock("another", c).TryLock(h.Context()))
	require.ErrorIs(t, NewRedisLock("k", c).TryLock(h.Context()), ErrKeyConflict)
}

func TestOwnersAreScopedToTheirClient(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	ctx := ContextWithOwner(t.Context(), "job")
	require.NoError(t, NewReentrantLock("k", c).Lock(ctx))
	require.NoError(t, <-async(t, func() error { return NewReentrantLock("k", c).Lock(ctx) }), "the same owner")
	require.ErrorIs(t, NewReentrantLock("k", sibling(t, s, c)).TryLock(ctx), ErrLockAcquiredByOthers)
	requireCount(t, s, c, "k", 2)
}

// Two goroutines with one owner both nest: the counts add up.
func TestOneOwnerManyGoroutines(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c, WithOwner("shared"))
	require.NoError(t, l.Lock(t.Context()))
	both := func(call func(context.Context) error, times int) {
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for range times {
					if err := call(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
	}
	both(l.Lock, 25)
	requireCount(t, s, c, "k", 101)
	both(l.Unlock, 25)
	requireCount(t, s, c, "k", 1)
	require.NoError(t, l.Unlock(t.Context()))
	requireFree(t, s, c, "k")
}

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
	require.NoError(t, <-async(t, func() error { return holds[1].Unlock(t.Context()) }), "from any goroutine")
	requireFree(t, s, c, "k")
}

// A level with a shorter lease does not shorten what is around it.
func TestReentryDoesNotShorten(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	outer, err := NewReentrantLock("k", c, WithExpiry(5*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	until := outer.ValidUntil()
	inner, err := NewReentrantLock("k", c, WithExpiry(200*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	require.Greater(t, pttl(t, s, c, "k"), 4*time.Second)
	require.Equal(t, until, outer.ValidUntil())
	require.NoError(t, inner.Unlock(t.Context()))
	require.Greater(t, pttl(t, s, c, "k"), 4*time.Second)
	require.NoError(t, outer.Err())
}

func TestReentryWithALongerLeaseLengthens(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	outer, err := NewReentrantLock("k", c, WithExpiry(time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, NewReentrantLock("k", c, WithExpiry(10*time.Second)).Lock(t.Context()))
	require.Greater(t, pttl(t, s, c, "k"), 9*time.Second)
	require.Greater(t, time.Until(outer.ValidUntil()), 9*time.Second)
}

// An inner Unlock neither frees nor shortens nor stops the renewal of the outer level.
func TestInnerUnlockLeavesTheOuterRenewed(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c, WithWatchdog(300*time.Millisecond))
	outer, err := l.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	staysHeld(t, s, c, outer, 4*300*time.Millisecond)
	require.NoError(t, outer.Unlock(t.Context()))
	requireFree(t, s, c, "k")
}

// A watched level inside a fixed one: the renewal ends with it, and belief runs out as last set.
func TestRenewalEndsWithTheLastWatchedLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	outer, err := NewReentrantLock("k", c, WithExpiry(300*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	inner, err := NewReentrantLock("k", c, WithWatchdog(300*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	staysHeld(t, s, c, outer, 900*time.Millisecond)
	require.NoError(t, inner.Unlock(t.Context()))
	require.ErrorIs(t, endedWithin(t, outer.Context(), time.Second), ErrLockLost)
	require.ErrorIs(t, outer.Unlock(t.Context()), ErrLockLost)
}

// Frequent short levels must not put off the renewal of the outer one.
func TestShortLevelsDoNotDelayTheRenewal(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	outer, err := NewReentrantLock("k", c, WithWatchdog(3600*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	short := NewReentrantLock("k", c, WithWatchdog(1200*time.Millisecond))
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		require.NoError(t, short.Do(t.Context(), nothing))
		require.Greater(t, time.Until(outer.ValidUntil()), 800*time.Millisecond)
	}
	require.NoError(t, outer.Unlock(t.Context()))
}

func staysHeld(t *testing.T, s *redistest.Server, c *Client, h Hold, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
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
	require.ErrorIs(t, <-async(t, func() error { return l.Lock(context.WithoutCancel(h.Context())) }), ErrLockLost, "the same owner by the context")

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
	inner, err := NewReentrantLock("k", c, WithMaxHold(50*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, endedWithin(t, inner.Context(), time.Second), ErrMaxHold)
	require.NoError(t, outer.Err())
	owner := c.identity.goroutine()
	eventually(t, time.Second, func() bool {
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
	outer, err := NewReentrantLock("k", c, WithMaxHold(300*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	l := NewReentrantLock("k", c)
	require.NoError(t, l.Lock(t.Context()))
	_ = endedWithin(t, outer.Context(), time.Second)
	require.NoError(t, l.Unlock(t.Context()))
	requireFree(t, s, c, "k")
	require.ErrorIs(t, l.Lock(t.Context()), ErrLockLost)
	require.ErrorIs(t, outer.Unlock(t.Context()), ErrMaxHold)
	require.NoError(t, l.Lock(t.Context()))
}

// Two calls of one owner may both wait, and neither keeps the other from trying.
func TestOneOwnerWaitsTwice(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	holder := NewReentrantLock("k", sibling(t, s, c))
	require.NoError(t, holder.Lock(t.Context()))
	l := NewReentrantLock("k", c, WithOwner("shared"), WithBlock())
	first := async(t, func() error { return l.Lock(t.Context()) })
	second := async(t, func() error { return l.Lock(t.Context()) })
	eventually(t, 5*time.Second, func() bool { return c.waiting(keyOf(c, "k")) == 2 }, "both wait")
	require.ErrorIs(t, l.TryLock(t.Context()), ErrLockAcquiredByOthers)
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, resultWithin(t, first, time.Second))
	require.NoError(t, resultWithin(t, second, time.Second))
	requireCount(t, s, c, "k", 2)
}

func TestNestedDo(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	mine := errors.New("mine")
	l := NewReentrantLock("k", c, WithBlock())
	err := l.Do(t.Context(), func(ctx context.Context) error {
		return l.Do(ctx, func(ctx context.Context) error {
			requireCount(t, s, c, "k", 2)
			return l.Do(ctx, func(context.Context) error { return mine })
		})
	})
	require.Equal(t, mine, err) //nolint:testifylint // identity is meant
	requireFree(t, s, c, "k")
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

package acquire_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// Packages that each make their own object share the hold of their goroutine.
func TestNesting(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	other := relock.NewReentrantLock("k", locktest.Sibling(t, s, c))
	for depth := 1; depth <= 5; depth++ {
		require.NoError(t, relock.NewReentrantLock("k", c).Lock(t.Context()))
		locktest.RequireCount(t, s, c, "k", depth)
	}
	for depth := 4; depth >= 1; depth-- {
		require.NoError(t, relock.NewReentrantLock("k", c).Unlock(t.Context()))
		locktest.RequireCount(t, s, c, "k", depth)
		require.ErrorIs(t, other.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	}
	require.NoError(t, relock.NewReentrantLock("k", c).Unlock(t.Context()))
	locktest.RequireFree(t, s, c, "k")
	require.ErrorIs(t, relock.NewReentrantLock("k", c).Unlock(t.Context()), relock.ErrNotHeld)
	require.NoError(t, other.TryLock(t.Context()))
}

func TestNestingTenThousandLevels(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c)
	for range 10_000 {
		require.NoError(t, l.Lock(t.Context()))
	}
	locktest.RequireCount(t, s, c, "k", 10_000)
	for range 9_999 {
		require.NoError(t, l.Unlock(t.Context()))
	}
	locktest.RequireCount(t, s, c, "k", 1)
	require.NoError(t, l.Unlock(t.Context()))
	locktest.RequireFree(t, s, c, "k")
	require.Zero(t, locktest.Engine(c).State().Owners)
	require.Zero(t, locktest.Engine(c).State().Leases)
}

func TestAnotherGoroutineIsAnotherOwner(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c)
	require.NoError(t, l.Lock(t.Context()))
	require.ErrorIs(t, <-testkit.Async(t, func() error { return l.TryLock(t.Context()) }), relock.ErrLockAcquiredByOthers)
	require.ErrorIs(t, <-testkit.Async(t, func() error { return l.Unlock(t.Context()) }), relock.ErrNotHeld)
	locktest.RequireCount(t, s, c, "k", 1)
}

// Goroutines that are started inside Do with its context, or with the context of the hold, are the same owner.
func TestContextCarriesTheOwner(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c)
	require.NoError(t, l.Do(t.Context(), func(ctx context.Context) error {
		h, ok := relock.HoldFromContext(ctx, "k")
		require.True(t, ok)
		for _, ctx := range []context.Context{ctx, h.Context()} {
			require.NoError(t, <-testkit.Async(t, func() error {
				if err := l.Lock(ctx); err != nil {
					return err
				}
				locktest.RequireCount(t, s, c, "k", 2)
				return l.Unlock(ctx)
			}))
		}
		locktest.RequireCount(t, s, c, "k", 1)
		return nil
	}))
	locktest.RequireFree(t, s, c, "k")
}

func TestOwnerOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c, relock.WithOwner("of the lock"))
	id := func(ctx context.Context) string {
		owner, err := locktest.Target(l).Owner(ctx)
		require.NoError(t, err)
		return owner.ID
	}
	require.Equal(t, locktest.Engine(c).Identity.Goroutine(), func() string {
		owner, _ := locktest.Target(relock.NewReentrantLock("k", c)).Owner(t.Context())
		return owner.ID
	}())
	require.Equal(t, locktest.Engine(c).Identity.Named("of the lock"), id(t.Context()))
	named := relock.ContextWithOwner(t.Context(), "of the context")
	require.Equal(t, locktest.Engine(c).Identity.Named("of the context"), id(named))

	h, err := relock.NewReentrantLock("k", c, relock.WithOwner("holder")).Acquire(t.Context())
	require.NoError(t, err)
	inside := relock.ContextWithOwner(h.Context(), "of the context")
	require.Equal(t, locktest.Engine(c).Identity.Named("holder"), id(inside), "a live hold comes first")
	require.NoError(t, h.Unlock(t.Context()))
	require.Equal(t, locktest.Engine(c).Identity.Named("of the context"), id(inside), "one that is over does not count")

	_, err = locktest.Target(l).Owner(relock.ContextWithOwner(t.Context(), ""))
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorIs(t, l.Lock(relock.ContextWithOwner(t.Context(), "")), relock.ErrInvalid)
}

// A hold of another name, client or kind in the context is no owner of this lock.
func TestHoldsOfOthersInTheContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	other := locktest.Sibling(t, s, c)
	h, err := relock.NewReentrantLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, relock.NewReentrantLock("k", other).TryLock(h.Context()), relock.ErrLockAcquiredByOthers)
	require.NoError(t, relock.NewReentrantLock("another", c).TryLock(h.Context()))
	require.ErrorIs(t, relock.NewRedisLock("k", c).TryLock(h.Context()), relock.ErrKeyConflict)
}

func TestOwnersAreScopedToTheirClient(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	ctx := relock.ContextWithOwner(t.Context(), "job")
	require.NoError(t, relock.NewReentrantLock("k", c).Lock(ctx))
	require.NoError(t, <-testkit.Async(t, func() error { return relock.NewReentrantLock("k", c).Lock(ctx) }), "the same owner")
	require.ErrorIs(t, relock.NewReentrantLock("k", locktest.Sibling(t, s, c)).TryLock(ctx), relock.ErrLockAcquiredByOthers)
	locktest.RequireCount(t, s, c, "k", 2)
}

// Two goroutines with one owner both nest: the counts add up.
func TestOneOwnerManyGoroutines(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c, relock.WithOwner("shared"))
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
	locktest.RequireCount(t, s, c, "k", 101)
	both(l.Unlock, 25)
	locktest.RequireCount(t, s, c, "k", 1)
	require.NoError(t, l.Unlock(t.Context()))
	locktest.RequireFree(t, s, c, "k")
}

// Two calls of one owner may both wait, and neither keeps the other from trying.
func TestOneOwnerWaitsTwice(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	holder := relock.NewReentrantLock("k", locktest.Sibling(t, s, c))
	require.NoError(t, holder.Lock(t.Context()))
	l := relock.NewReentrantLock("k", c, relock.WithOwner("shared"), relock.WithBlock())
	first := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	second := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	testkit.Eventually(t, 5*time.Second, func() bool { return locktest.WaitingIn(c, locktest.KeyOf(c, "k")) == 2 }, "both wait")
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, first, time.Second))
	require.NoError(t, testkit.ResultWithin(t, second, time.Second))
	locktest.RequireCount(t, s, c, "k", 2)
}

func TestNestedDo(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	mine := errors.New("mine")
	l := relock.NewReentrantLock("k", c, relock.WithBlock())
	err := l.Do(t.Context(), func(ctx context.Context) error {
		return l.Do(ctx, func(ctx context.Context) error {
			locktest.RequireCount(t, s, c, "k", 2)
			return l.Do(ctx, func(context.Context) error { return mine })
		})
	})
	require.Equal(t, mine, err) //nolint:testifylint // identity is meant
	locktest.RequireFree(t, s, c, "k")
}

// A hold that ends between the look at it and the request for one level more asks for none.
func TestNoLevelOfAHoldThatHasEnded(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	one, err := relock.NewReentrantLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	l := locktest.Level(one).Lease()
	l.Lose(relock.ErrForced)
	err = l.Deeper(locktest.Level(one).Settings())
	require.ErrorIs(t, err, relock.ErrForced)

	rw := relock.NewRWLock("rw", c)
	two, err := rw.Acquire(t.Context())
	require.NoError(t, err)
	l = locktest.Level(two).Lease()
	l.Lose(relock.ErrLockLost)
	err = l.Deeper(locktest.Level(two).Settings())
	require.ErrorIs(t, err, relock.ErrLockLost)
}

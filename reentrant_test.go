package relock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
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
	require.Zero(t, c.engine.State().Owners)
	require.Zero(t, c.engine.State().Leases)
}

func TestAnotherGoroutineIsAnotherOwner(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c)
	require.NoError(t, l.Lock(t.Context()))
	require.ErrorIs(t, <-testkit.Async(t, func() error { return l.TryLock(t.Context()) }), ErrLockAcquiredByOthers)
	require.ErrorIs(t, <-testkit.Async(t, func() error { return l.Unlock(t.Context()) }), ErrNotHeld)
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
			require.NoError(t, <-testkit.Async(t, func() error {
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
	l := NewReentrantLock("k", c)
	id := func(ctx context.Context) string {
		owner, err := l.target.Owner(ctx)
		require.NoError(t, err)
		return owner.ID
	}
	require.Equal(t, c.engine.Identity.Goroutine(), id(t.Context()))
	named := ContextWithOwner(t.Context(), "of the context")
	require.Equal(t, c.engine.Identity.Named("of the context"), id(named))

	h, err := owned("holder", NewReentrantLock("k", c)).Acquire(t.Context())
	require.NoError(t, err)
	inside := ContextWithOwner(h.Context(), "of the context")
	require.Equal(t, c.engine.Identity.Named("holder"), id(inside), "a live hold comes first")
	require.NoError(t, h.Unlock(t.Context()))
	require.Equal(t, c.engine.Identity.Named("of the context"), id(inside), "one that is over does not count")

	_, err = l.target.Owner(ContextWithOwner(t.Context(), ""))
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
	require.NoError(t, <-testkit.Async(t, func() error { return NewReentrantLock("k", c).Lock(ctx) }), "the same owner")
	require.ErrorIs(t, NewReentrantLock("k", sibling(t, s, c)).TryLock(ctx), ErrLockAcquiredByOthers)
	requireCount(t, s, c, "k", 2)
}

// Two goroutines with one owner both nest: the counts add up.
func TestOneOwnerManyGoroutines(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := owned("shared", NewReentrantLock("k", c))
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

// Two calls of one owner may both wait, and neither keeps the other from trying.
func TestOneOwnerWaitsTwice(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	holder := NewReentrantLock("k", sibling(t, s, c))
	require.NoError(t, holder.Lock(t.Context()))
	l := owned("shared", NewReentrantLock("k", c, WithBlock()))
	first := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	second := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	testkit.Eventually(t, 5*time.Second, func() bool { return c.waiting(keyOf(c, "k")) == 2 }, "both wait")
	require.ErrorIs(t, l.TryLock(t.Context()), ErrLockAcquiredByOthers)
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, first, time.Second))
	require.NoError(t, testkit.ResultWithin(t, second, time.Second))
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

// A hold that ends between the look at it and the request for one level more asks for none.
func TestNoLevelOfAHoldThatHasEnded(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	one, err := NewReentrantLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	l := one.(hold).level.Lease()
	l.Lose(ErrForced)
	err = l.Deeper(one.(hold).level.Settings())
	require.ErrorIs(t, err, ErrForced)

	rw := NewRWLock("rw", c)
	two, err := rw.Acquire(t.Context())
	require.NoError(t, err)
	l = two.(hold).level.Lease()
	l.Lose(ErrLockLost)
	err = l.Deeper(two.(hold).level.Settings())
	require.ErrorIs(t, err, ErrLockLost)
}

package acquire_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A call that waits is woken at its first busy key, and goes on to another one that is held by then.
func TestMultiLockWaits(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	others := locktest.Sibling(t, s, c)
	keys := []string{"a", "b", "c"}
	hold := func(key string) relock.Hold {
		h, err := relock.NewRedisLock(key, others).Acquire(t.Context())
		require.NoError(t, err)
		return h
	}
	inQueue := func(key string) bool { return s.Do(t, "ZCARD", locktest.KeyOf(c, key)+":q") == int64(1) }
	held := map[string]relock.Hold{"a": hold("a"), "c": hold("c")}
	l := relock.NewMultiLock(keys, c, relock.WithBlock(), relock.WithPollInterval(locktest.Leisure))
	got := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return inQueue("a") }, "waits for its first busy key")
	require.False(t, inQueue("c"), "and for no other")
	locktest.RequireFree(t, s, c, "b")
	held["b"] = hold("b")
	require.NoError(t, held["a"].Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool { return inQueue("b") && !inQueue("a") }, "goes on to the next one")
	testkit.Eventually(t, 5*time.Second, func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "a")) == int64(0) }, "and has given the first one back")
	require.NoError(t, held["b"].Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool { return inQueue("c") && !inQueue("b") }, "and to the last")
	start := time.Now()
	require.NoError(t, held["c"].Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, got, testkit.Patience))
	t.Logf("granted %v after the last Unlock", time.Since(start))
	for _, key := range keys {
		locktest.RequireHeld(t, s, c, key)
	}
	require.NoError(t, l.Unlock(t.Context()))
	locktest.RequireNoQueues(t, s, c, keys...)
}

func TestMultiLockWaitEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	h, err := relock.NewRedisLock("b", locktest.Sibling(t, s, c)).Acquire(t.Context())
	require.NoError(t, err)
	keys := []string{"a", "b"}
	require.ErrorIs(t, relock.NewMultiLock(keys, c, relock.WithBlockTimeout(2*time.Second)).Lock(t.Context()), relock.ErrLockAcquiredByOthers)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, locktest.ErrMine)
	defer cancel()
	err = relock.NewMultiLock(keys, c, relock.WithBlock()).Lock(ctx)
	for _, want := range []error{context.DeadlineExceeded, locktest.ErrMine, relock.ErrLockAcquiredByOthers} {
		require.ErrorIs(t, err, want)
	}
	require.NoError(t, h.Unlock(t.Context()))
	locktest.RequireNoQueues(t, s, c, keys...)
	require.ErrorIs(t, relock.NewMultiLock(keys, c).Lock(ctx), context.DeadlineExceeded)
}

func TestMultiLockOfAClosedClient(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	other := locktest.Sibling(t, s, c)
	keys := []string{"a", "b"}
	l := relock.NewMultiLock(keys, c, relock.WithBlock())
	require.NoError(t, l.Lock(t.Context()))
	ctx := locktest.Multi(l).Held().Context()
	waiting := testkit.Async(t, func() error { return relock.NewMultiLock(keys, c, relock.WithBlock()).Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "ZCARD", locktest.KeyOf(c, "a")+":q") == int64(1) }, "waits")
	require.NoError(t, c.Close())
	require.ErrorIs(t, testkit.ResultWithin(t, waiting, 5*time.Second), relock.ErrClosed)
	require.ErrorIs(t, testkit.EndedWithin(t, ctx, time.Second), relock.ErrClosed)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrClosed)
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrClosed)
	locktest.RequireHeld(t, s, other, "a")
}

func TestMultiLockQueueLimit(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	h, err := relock.NewRedisLock("b", locktest.Sibling(t, s, c)).Acquire(t.Context())
	require.NoError(t, err)
	keys := []string{"a", "b"}
	l := relock.NewMultiLock(keys, c, relock.WithBlock())
	waiting := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "ZCARD", locktest.KeyOf(c, "b")+":q") == int64(1) }, "waits")
	require.ErrorIs(t, relock.NewMultiLock(keys, locktest.Sibling(t, s, c), relock.WithBlock(), relock.WithQueueLimit(1)).Lock(t.Context()), relock.ErrQueueFull)
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))
	require.NoError(t, l.Unlock(t.Context()))
	locktest.RequireNoQueues(t, s, c, keys...)
}

// Close with WithReleaseOnClose gives all keys back.
func TestMultiLockReleasedOnClose(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s, relock.WithReleaseOnClose())
	require.NoError(t, relock.NewMultiLock([]string{"a", "b", "c"}, c).Lock(t.Context()))
	require.NoError(t, c.Close())
	require.Equal(t, int64(0), s.Do(t, "EXISTS", locktest.KeyOf(c, "a"), locktest.KeyOf(c, "b"), locktest.KeyOf(c, "c")))
}

package relock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// pairOfKind returns two locks of a name: one to be held, and one that waits.
type pairOfKind func(name string, holder, waiter *relock.Client) (held, lock relock.Mutex)

var pairsOfKinds = map[string]pairOfKind{
	"plain": func(name string, holder, waiter *relock.Client) (held, lock relock.Mutex) {
		return relock.NewRedisLock(name, holder), relock.NewRedisLock(name, waiter)
	},
	"fair": func(name string, holder, waiter *relock.Client) (held, lock relock.Mutex) {
		fair := relock.WithFair()
		return relock.NewRedisLock(name, holder, fair), relock.NewRedisLock(name, waiter, fair)
	},
	"reentrant": func(name string, holder, waiter *relock.Client) (held, lock relock.Mutex) {
		return relock.NewReentrantLock(name, holder), relock.NewReentrantLock(name, waiter)
	},
	"write": func(name string, holder, waiter *relock.Client) (held, lock relock.Mutex) {
		return relock.NewRWLock(name, holder), relock.NewRWLock(name, waiter)
	},
	"read": func(name string, holder, waiter *relock.Client) (held, lock relock.Mutex) {
		return relock.NewRWLock(name, holder), relock.NewRWLock(name, waiter).RLocker()
	},
	"semaphore": func(name string, holder, waiter *relock.Client) (held, lock relock.Mutex) {
		newLock := locktest.AllKinds["Semaphore"]
		return newLock(name, holder), newLock(name, waiter, relock.WithBlock())
	},
	"multi": func(name string, holder, waiter *relock.Client) (held, lock relock.Mutex) {
		return relock.NewRedisLock(name, holder), relock.NewMultiLock([]string{"beside " + name, name}, waiter)
	},
}

// A call reports that it has waited if it did not get the lock at its first
// attempt, whatever came of it. Each case uses another lock: a poll that is
// on its way when its waiter gets the lock puts it back into the queue, and the
// lock is reserved until the client cancels that.
func TestObserverOfWaits(t *testing.T) {
	t.Parallel()
	s, done := redistest.Shared(t), make(chan relock.LockDone, 1)
	note := func(_ context.Context, e relock.LockDone) { done <- e }
	c := locktest.NewTestClient(t, s, relock.WithBlock(), relock.WithObserver(relock.Observer{LockDone: note}))
	holder := locktest.Sibling(t, s, c)
	waits := func(name string) {
		testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Waiting == 1 }, name+" waits")
	}
	for kind, newPair := range pairsOfKinds {
		held, lock := newPair(kind+", handed on", holder, c)
		require.NoError(t, held.Lock(t.Context()))
		require.ErrorIs(t, lock.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
		require.False(t, (<-done).Waited, "%s: one attempt", kind)
		result := testkit.Async(t, func() error { return lock.Do(t.Context(), locktest.Nothing) })
		waits(kind)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
		require.True(t, (<-done).Waited, kind)

		_, lock = newPair(kind+", free", holder, c)
		require.NoError(t, lock.Do(t.Context(), locktest.Nothing))
		require.False(t, (<-done).Waited, "%s: nobody is in the way", kind)

		held, lock = newPair(kind+", cancelled", holder, c)
		require.NoError(t, held.Lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		result = testkit.Async(t, func() error { return lock.Do(ctx, locktest.Nothing) })
		waits(kind + " again")
		cancel()
		require.ErrorIs(t, testkit.ResultWithin(t, result, testkit.Patience), context.Canceled)
		require.True(t, (<-done).Waited, "%s: cancelled", kind)
		require.NoError(t, held.Unlock(t.Context()))
	}
}

// A call that a goroutine of the same process hands the lock to has waited. A
// level of a hold needs no wait.
func TestObserverOfALocalWait(t *testing.T) {
	t.Parallel()
	done := make(chan relock.LockDone, 2)
	note := func(_ context.Context, e relock.LockDone) { done <- e }
	_, c := locktest.OnShared(t, relock.WithBlock(), relock.WithObserver(relock.Observer{LockDone: note}))
	h := locktest.Take(t, relock.NewReentrantLock("k", c).Acquire)
	require.False(t, (<-done).Waited)
	level, err := relock.NewReentrantLock("k", c).Acquire(h.Context())
	require.NoError(t, err)
	require.False(t, (<-done).Waited)
	require.NoError(t, level.Unlock(t.Context()))
	result := testkit.Async(t, func() error { return relock.NewReentrantLock("k", c).Do(t.Context(), locktest.Nothing) })
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Waiting == 1 }, "the other goroutine waits")
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
	require.True(t, (<-done).Waited)
}

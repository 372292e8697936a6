package acquire_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// Goroutines that wait on the object wait in memory: only the first of them asks the server, and TryLock asks nothing.
func TestSharedObjectWaitsInMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewRedisLock("k", c, relock.WithBlock())
	require.NoError(t, l.Lock(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	var waits []<-chan error
	for range 50 {
		waits = append(waits, testkit.Async(t, func() error { return l.Lock(ctx) }))
	}
	testkit.Eventually(t, 3*time.Second, func() bool {
		return locktest.WaitingIn(c, locktest.KeyOf(c, "k")) == 50 && locktest.Calls(t, s, "zadd") == 1
	}, "all wait")
	sets := locktest.Calls(t, s, "set")
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.Equal(t, sets, locktest.Calls(t, s, "set"))
	for _, result := range waits {
		require.ErrorIs(t, testkit.ResultWithin(t, result, 3*time.Second), relock.ErrLockAcquiredByOthers)
	}
	require.Equal(t, 1, locktest.Calls(t, s, "zadd"), "it is one wait in Redis, for whoever is the first")
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	locktest.RequireFree(t, s, c, "k")
}

func TestSharedObjectExcludes(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	l := relock.NewRedisLock("k", locktest.NewTestClient(t, s), relock.WithBlock())
	counter := 0
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 25 {
				if err := l.Lock(t.Context()); err != nil {
					t.Error(err)
					return
				}
				seen := counter // unprotected: the race detector and the sum would tell
				runtime.Gosched()
				counter = seen + 1
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, 200, counter)
}

// The first user of a shared object loses its hold while a second one waits on it: the object stays taken until the first one's Unlock, which says what happened and
// does not touch the hold that the second one then gets.
func TestSharedObjectAfterALoss(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewRedisLock("k", c, relock.WithBlock(), relock.WithExpiry(1800*time.Millisecond))
	require.NoError(t, l.Lock(t.Context()))
	second := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	testkit.Eventually(t, 4200*time.Millisecond, func() bool { return locktest.Pttl(t, s, c, "k") < 0 }, "the lease ends")
	select {
	case err := <-second:
		require.FailNow(t, "granted before the Unlock of the lost hold", "%v", err)
	case <-time.After(100 * time.Millisecond):
	}
	err := l.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.ErrorIs(t, err, relock.ErrNotHeld)
	require.NoError(t, testkit.ResultWithin(t, second, time.Second))
	locktest.RequireHeld(t, s, c, "k")
	require.NoError(t, l.Unlock(t.Context()))
	locktest.RequireFree(t, s, c, "k")
}

func TestAcquireLeavesNothingInTheObject(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewRedisLock("k", c)
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, "k", h.Key())
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
	locktest.RequireHeld(t, s, c, "k")
	require.NoError(t, h.Unlock(t.Context()))
	locktest.RequireFree(t, s, c, "k")
}

package goredis_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Permits over go-redis are granted and refused, and handed to a waiter by a
// release, by a crash and by an operator, who ends more than one request does.
func TestSemaphore(t *testing.T) {
	const limit = 300
	t.Parallel()
	s := redistest.StartTCP(t)
	newClient := clientsOver(t, func() redis.UniversalClient {
		return changed(t, redis.NewClient, &redis.Options{Addr: s.Address}, nil)
	})
	holder, other, dying := newClient(), newClient(), newClient()
	var held []relock.Hold
	for range limit - 1 {
		held = append(held, locktest.Take(t, relock.NewSemaphore("k", limit, holder, relock.WithFair()).Acquire))
	}
	watched := relock.NewSemaphore("k", limit, dying, relock.WithFair(), relock.WithWatchdog(time.Second))
	last := locktest.Take(t, watched.Acquire)
	_, err := relock.NewSemaphore("k", limit, other, relock.WithFair()).TryAcquire(t.Context())
	require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
	waiting := relock.NewSemaphore("k", limit, other, relock.WithFair(), relock.WithBlock())
	for n, end := range []func(){
		func() { require.NoError(t, held[0].Unlock(t.Context())) },
		func() { require.NoError(t, dying.Close()) },
		func() { require.NoError(t, other.ForceUnlock(t.Context(), "k", "test")) },
	} {
		call := testkit.Async(t, func() error {
			_, err := waiting.Acquire(t.Context())
			return err
		})
		waits := func() bool { return locktest.Inspect(t, other, "k").Waiting == 1 }
		testkit.Eventually(t, testkit.Patience, waits, "it waits")
		end()
		require.NoError(t, testkit.ResultWithin(t, call, testkit.Patience), n)
	}
	require.ErrorIs(t, held[limit-2].Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, last.Err(), relock.ErrClosed)
}

package proof

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// memoryLease is so long that only the renewals come that a test asks for.
const memoryLease = 6 * testkit.Patience

// A server that restarts with its data but without memory keeps its locks: they
// are renewed and released. It refuses new ones and nested ones, with a
// retryable error.
func TestRestartWithoutMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, appendOnly("always")...)
	c := clientOf(t, s)
	var holds []relock.Hold
	for _, kind := range serverKinds {
		holds = append(holds, kind.hold(t, c, relock.WithWatchdog(memoryLease)))
	}
	inner := locktest.Owned("me", relock.NewReentrantLock("nested", c))
	require.NoError(t, inner.Lock(t.Context()))
	s.Kill(t)
	s.BootAndLoad(t)
	s.Do(t, "CONFIG", "SET", "maxmemory", 1)

	other := clientOf(t, s)
	for _, kind := range serverKinds {
		_, err := kind.lock("new "+kind.name, other).TryAcquire(t.Context())
		requireNoMemory(t, err)
		require.False(t, keyThere(t, s, "new "+kind.name))
	}
	requireNoMemory(t, inner.TryLock(t.Context()))
	require.NoError(t, inner.Unlock(t.Context()))
	require.False(t, keyThere(t, s, "nested"))
	for _, h := range holds {
		locktest.Renew(t, h, testkit.Patience)
		require.NoError(t, h.Err())
		require.NoError(t, h.Unlock(t.Context()))
		require.False(t, keyThere(t, s, h.Key()))
	}
}

func requireNoMemory(t *testing.T, err error) {
	t.Helper()
	require.ErrorContains(t, err, "OOM")
	require.True(t, relock.IsRetryableErr(err))
}

// A server restarts with neither data nor memory. The loss is found, and a
// waiter gets the lock once there is memory.
func TestEmptyRestartWithoutMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := clientOf(t, s), clientOf(t, s)
	var holds []relock.Hold
	for _, kind := range serverKinds {
		holds = append(holds, kind.hold(t, c, relock.WithWatchdog(memoryLease)))
	}
	s.Kill(t)
	s.BootAndLoad(t)
	s.Do(t, "CONFIG", "SET", "maxmemory", 1)
	for _, h := range holds {
		locktest.RenewNow(h)
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
		requireLost(t, h)
	}
	refused := int64(0)
	results := make(chan error, len(serverKinds))
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	for _, kind := range serverKinds {
		_, err := kind.lock(kind.name, other).TryAcquire(t.Context())
		requireNoMemory(t, err)
		refused++
		group.Go(func() {
			_, err := kind.lock(kind.name, other, relock.WithBlock()).Acquire(ctx)
			results <- err
		})
	}
	testkit.Eventually(t, testkit.Patience, func() bool { return refusals(t, s) > refused+1 }, "both wait")
	s.Do(t, "CONFIG", "SET", "maxmemory", 0)
	for _, h := range holds {
		require.NoError(t, <-results)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	}
	for _, kind := range serverKinds {
		require.True(t, keyThere(t, s, kind.name), "the first holder has freed the next one's lock")
	}
}

// refusals is how often the server has refused a command for want of memory.
func refusals(t *testing.T, s *redistest.Server) (n int64) {
	t.Helper()
	text, err := redis.String(s.Do(t, "INFO", "errorstats"), nil)
	require.NoError(t, err)
	if _, rest, ok := strings.Cut(text, "errorstat_OOM:count="); ok {
		n, err = strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 10, 64)
		require.NoError(t, err)
	}
	return n
}

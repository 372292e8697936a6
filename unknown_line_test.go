package relock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A proxy whose server is away answers with its own lines. A blocking Lock
// waits until the server is back, whatever the proxy says.
func TestWaitForTheServerOfAProxy(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"upstream failure", "ERR Connection refused", "no upstream host"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			c, proxy := locktest.Behind(t, redistest.Shared(t))
			var back atomic.Bool
			away := func([]string) bool { return !back.Load() }
			proxy.On(away, faults.Every, faults.ErrorLine(line))
			result := testkit.Async(t, func() error { return relock.NewRedisLock("k", c, relock.WithBlock()).Lock(t.Context()) })
			require.True(t, proxy.Await(faults.Any, 4, testkit.Patience))
			require.Empty(t, result)
			back.Store(true)
			require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
		})
	}
}

// A line that nobody knows ends a wait after a minute without any success, as
// it may be a mistake in the set-up.
func TestErrorLineThatRepeats(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c, err := relock.NewClient("tcp", "proxy:6379", "", relock.WithDialer(redistest.DialProxy("upstream failure")))
		require.NoError(t, err)
		start := time.Now()
		err = relock.NewRedisLock("k", c, relock.WithBlock()).Lock(t.Context())
		took := time.Since(start)
		require.NoError(t, c.Close())
		require.ErrorContains(t, err, "upstream failure (the same ")
		require.GreaterOrEqual(t, took, time.Minute)
		require.Less(t, took, time.Minute+5*time.Second)
		require.False(t, relock.IsRetryableErr(err))
	})
}

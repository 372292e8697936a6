package driver_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(locktest.Run(m)) }

// acquire acquires a watched lock of this key.
func acquire(t testing.TB, c *relock.Client, key string, opts ...relock.LockOption) relock.Hold {
	t.Helper()
	h := locktest.Take(t, relock.NewRedisLock(key, c, opts...).Acquire)
	return h
}

// requireRenewed has a hold renewed, twice.
func requireRenewed(t testing.TB, h relock.Hold) {
	t.Helper()
	for range 2 {
		until := h.ValidUntil()
		time.Sleep(time.Millisecond) // the validity counts from the sending
		locktest.LeaseOf(h).RenewNow()
		testkit.Eventually(t, testkit.Patience, func() bool { return h.Err() != nil || h.ValidUntil().After(until) }, "renewed")
		require.NoError(t, h.Err())
	}
}

// newClient returns a client that is closed when the test ends.
func newClient(t testing.TB, c *relock.Client, err error) *relock.Client {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

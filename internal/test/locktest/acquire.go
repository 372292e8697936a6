package locktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Acquire acquires a watched lock of this key.
func Acquire(t testing.TB, c *relock.Client, key string, opts ...relock.LockOption) relock.Hold {
	t.Helper()
	h := Take(t, relock.NewRedisLock(key, c, opts...).Acquire)
	return h
}

// RequireRenewed has a hold renewed, twice.
func RequireRenewed(t testing.TB, h relock.Hold) {
	t.Helper()
	for range 2 {
		until := h.ValidUntil()
		time.Sleep(time.Millisecond) // the validity counts from the sending
		RenewNow(h)
		testkit.Eventually(t, testkit.Patience,
			func() bool { return h.Err() != nil || h.ValidUntil().After(until) }, "renewed")
		require.NoError(t, h.Err())
	}
}

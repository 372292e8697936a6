package lease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A hold without a maximum that is older than 100 leases logged once. It may
// be one whose Unlock was forgotten.
func TestForgottenHoldIsLogged(t *testing.T) {
	t.Parallel()
	const length = 30 * time.Second
	type aged struct {
		kind  string
		opt   relock.LockOption
		age   time.Duration
		lines int
	}
	maximum, none := relock.WithMaxHold(time.Hour), relock.WithLabel("")
	testkit.Each(t, map[string]aged{
		"old":                     {"RedisLock", none, 101 * length, 1},
		"old, reentrant":          {"ReentrantLock", none, 101 * length, 1},
		"old, several":            {"MultiLock", none, 101 * length, 1},
		"younger":                 {"RedisLock", none, 99 * length, 0},
		"with a maximum":          {"RedisLock", maximum, 101 * length, 0},
		"several, with a maximum": {"MultiLock", maximum, 101 * length, 0},
	}, func(t *testing.T, _ string, tt aged) {
		var log locktest.LogBuffer
		c := locktest.NewTestClient(t, redistest.Shared(t), log.Option(), relock.WithWatchdog(length),
			relock.WithHoldProfile())
		h := locktest.Take(t, locktest.AllKinds[tt.kind]("k", c, tt.opt).Acquire)
		leases := []*lease.Lease{leaseOf(h)}
		if tt.kind == "MultiLock" {
			leases = nil
			for _, one := range locktest.Level(h).Members() {
				leases = append(leases, one.Lease())
			}
		}
		for range 3 {
			renewAged(t, c, tt.age, leases...)
		}
		require.NoError(t, h.Unlock(t.Context()))
		require.Equal(t, tt.lines, strings.Count(log.String(), "held for very long without WithMaxHold"), log.String())
		if tt.lines > 0 {
			require.Contains(t, log.String(), "held=50m")
			require.Contains(t, log.String(), " acquired=testing.go:", "the first caller outside of the module")
		}
	})
}

// renewAged makes leases look that old, and waits for a renewal of each.
func renewAged(t testing.TB, c *relock.Client, age time.Duration, leases ...*lease.Lease) {
	t.Helper()
	before := c.Stats().Renewals
	for _, l := range leases {
		l.Set(func(s *lease.State) { s.Granted = time.Now().Add(-age) })
		l.RenewNow()
	}
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Renewals >= before+int64(len(leases)) },
		"renewed")
}

// A level without a maximum hold is found on an old lease that had only levels
// with one.
func TestForgottenLevelIsLogged(t *testing.T) {
	t.Parallel()
	const length = 30 * time.Second
	var log locktest.LogBuffer
	c := locktest.NewTestClient(t, redistest.Shared(t), log.Option(), relock.WithWatchdog(length))
	outer := locktest.Take(t, relock.NewReentrantLock("k", c, relock.WithMaxHold(time.Hour)).Acquire)
	renewAged(t, c, 101*length, leaseOf(outer))
	inner, err := relock.NewReentrantLock("k", c).Acquire(outer.Context())
	require.NoError(t, err)
	renewAged(t, c, 101*length, leaseOf(outer))
	require.NoError(t, inner.Unlock(t.Context()))
	require.NoError(t, outer.Unlock(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "held for very long without WithMaxHold"), log.String())
	require.NotContains(t, log.String(), "acquired=", "there is no profile")
}

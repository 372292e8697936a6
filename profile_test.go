package relock_test

import (
	"context"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// stacks returns the profile of holds as text.
func stacks(t testing.TB) string {
	t.Helper()
	var text strings.Builder
	require.NoError(t, pprof.Lookup("relock").WriteTo(&text, 1))
	return text.String()
}

// requireHolds checks how many holds are in the profile.
func requireHolds(t testing.TB, n int) {
	t.Helper()
	require.Equal(t, n, pprof.Lookup("relock").Count(), stacks(t))
}

// Each hold is in the profile, with the stack of the call that acquired it,
// from its grant to its end. It is not parallel, as the profile is that of the
// process.
func TestHoldProfile(t *testing.T) {
	s, c := locktest.OnShared(t, relock.WithHoldProfile())
	other := locktest.Sibling(t, s, c, relock.WithHoldProfile()) // shares it
	rw := relock.NewRWLock("rw", c)
	for kind, lock := range map[string]relock.Mutex{
		"plain": relock.NewRedisLock("plain", c), "reentrant": relock.NewReentrantLock("reentrant", other), "write": rw,
		"read":  rw.RLocker(),
		"multi": relock.NewMultiLock([]string{"a", "b"}, c),
	} {
		requireHolds(t, 0)
		require.NoError(t, lock.Lock(t.Context()), kind)
		requireHolds(t, 1)
		require.Contains(t, stacks(t), "relock_test.TestHoldProfile+")
		require.Error(t, relock.NewRedisLock("plain", c, relock.WithExpiry(1)).Lock(t.Context()))
		requireHolds(t, 1)
		require.NoError(t, lock.Unlock(t.Context()), kind)
		requireHolds(t, 0)
		require.NoError(t, lock.Do(t.Context(), func(context.Context) error {
			requireHolds(t, 1)
			return nil
		}))
	}
	locker := locktest.NewLocker(t, c)
	require.NoError(t, relock.Do(t.Context(), locker, "k", func(ctx context.Context) error {
		return relock.Do(ctx, locker, "k", func(context.Context) error {
			requireHolds(t, 2) // each level
			return nil
		})
	}))
	requireHolds(t, 0)
}

// A hold that was lost is not in the profile, nor is one of a closed client.
// Thousands of holds are. It is not parallel, as the profile is that of the
// process.
func TestEndsInHoldProfile(t *testing.T) {
	s, c := locktest.OnShared(t, relock.WithHoldProfile())
	h := locktest.Take(t, relock.NewRedisLock("lost", c, relock.WithWatchdog(time.Second)).Acquire)
	s.Do(t, "DEL", locktest.KeyOf(c, "lost"))
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
	testkit.Eventually(t, testkit.Patience, func() bool { return pprof.Lookup("relock").Count() == 0 },
		"the loss is reported")
	const many = 2000
	for i := range many {
		locktest.Take(t, relock.NewRedisLock(strconv.Itoa(i), c).Acquire)
	}
	requireHolds(t, many)
	require.NoError(t, c.Close())
	testkit.Eventually(t, testkit.Patience, func() bool { return pprof.Lookup("relock").Count() == 0 },
		"Close ends all holds")
}

// Without the option nothing is in a profile.
func TestNoHoldProfile(t *testing.T) {
	_, profiled := locktest.OnShared(t, relock.WithHoldProfile())
	require.NoError(t, relock.NewRedisLock("k", profiled).Do(t.Context(), locktest.Nothing))
	_, c := locktest.OnShared(t)
	require.NoError(t, relock.NewRedisLock("k", c).Do(t.Context(), func(context.Context) error {
		requireHolds(t, 0)
		return nil
	}))
}

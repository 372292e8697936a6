package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// ownLevel adds a level of an owner to a reentrant lock.
func ownLevel(t *testing.T, c *relock.Client, lease relock.LockOption) relock.Hold {
	t.Helper()
	return locktest.Take(t, locktest.Owned("me", relock.NewReentrantLock("k", c, lease)).Acquire)
}

// Levels with a fixed lease put off no renewal of another level.
func TestFixedLevelsLeaveRenewalsAlone(t *testing.T) {
	t.Parallel()
	_, c := locktest.OnShared(t)
	outer := ownLevel(t, c, relock.WithWatchdog(1500*time.Millisecond))
	for begin := time.Now(); time.Since(begin) < 3*time.Second; time.Sleep(200 * time.Millisecond) {
		inner := ownLevel(t, c, relock.WithExpiry(5*time.Second))
		require.NoError(t, inner.Unlock(t.Context()))
	}
	require.NoError(t, outer.Err())
	require.NoError(t, outer.Unlock(t.Context()))
}

// A short lease looks for the mark once it was made longer.
func TestLongerLeaseLooks(t *testing.T) {
	t.Parallel()
	for name, longer := range map[string]func(t *testing.T, c *relock.Client, h relock.Hold){
		"by Extend": func(t *testing.T, _ *relock.Client, h relock.Hold) {
			require.NoError(t, h.Extend(t.Context(), 4*time.Second))
		},
		"by a level": func(t *testing.T, c *relock.Client, _ relock.Hold) {
			ownLevel(t, c, relock.WithExpiry(4*time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Shared(t)
			c := locktest.Patient(locktest.NewTestClient(t, s))
			h := ownLevel(t, c, relock.WithExpiry(time.Second))
			longer(t, c, h)
			other := locktest.Sibling(t, s, c)
			forced := testkit.Async(t, func() error { return other.ForceUnlock(t.Context(), "k", "why") })
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrForced)
			require.NoError(t, testkit.ResultWithin(t, forced, testkit.Patience))
		})
	}
}

// However long a lease is, the holder learns within a minute that it is marked:
// it is renewed, or looks, once a minute at least.
func TestLongLeaseAsksEachMinute(t *testing.T) {
	for name, length := range map[string]setting{"watched": watched(time.Hour), "fixed": fixed(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			timed(t, func(t *testing.T, e *engine) {
				h := e.take(t, lockspec.Plain, "k", length)
				time.Sleep(10*time.Minute + time.Second)
				require.GreaterOrEqual(t, e.calls(script.Renew), 10)
				require.LessOrEqual(t, e.calls(script.Renew), 12, "jitter shortens a pause by a tenth at most")
				require.NoError(t, h.Unlock())
			})
		})
	}
}

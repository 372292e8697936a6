package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

type userKey struct{}

func TestHoldContext(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, _ *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), userKey{}, "value"))
		h, err := newLock("k", c).Acquire(ctx)
		require.NoError(t, err)
		cancel()
		require.NoError(t, h.Context().Err(), "it is not cancelled with the context of Acquire")
		require.Equal(t, "value", h.Context().Value(userKey{}))
		require.Equal(t, h, carried(t, h.Context(), "k"))
		require.NoError(t, h.Err())

		require.NoError(t, h.Unlock(ctx))
		require.Equal(t, relock.ErrNotHeld, context.Cause(h.Context()))
		require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
		require.Zero(t, h.ValidUntil())
		require.Zero(t, h.Fence())
		require.Equal(t, "k", h.Key())
		err = h.Extend(t.Context(), time.Minute)
		require.ErrorIs(t, err, relock.ErrNotHeld)
		require.NotErrorIs(t, err, relock.ErrLockLost)

		h = locktest.Take(t, newLock("k", c).Acquire)
		require.NoError(t, h.Unlock(nil)) //nolint:staticcheck // the mistake is meant
		require.Equal(t, relock.ErrNotHeld, context.Cause(h.Context()), "its first use is after the end")
	})
}

func TestExtend(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, s *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		h := locktest.Take(t, newLock("k", c, relock.WithExpiry(20*time.Second)).Acquire)
		require.NoError(t, h.Extend(t.Context(), 10*time.Minute))
		require.Greater(t, locktest.PTTL(t, s, c, "k"), 9*time.Minute)
		require.Greater(t, time.Until(h.ValidUntil()), 9*time.Minute)

		require.NoError(t, h.Extend(t.Context(), time.Second))
		require.Greater(t, locktest.PTTL(t, s, c, "k"), 8*time.Minute, "never shorter")
		until := h.ValidUntil()
		require.Greater(t, time.Until(until), 8*time.Minute)

		for _, d := range []time.Duration{
			0, -1, -time.Second, 9 * time.Millisecond, 10500 * time.Microsecond, 1 << 62, 1<<63 - 1,
		} {
			requireMistakes(t, h.Extend(t.Context(), d), "extend", "Extend")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, h.Extend(ended, time.Hour), context.Canceled)
		require.NoError(t, h.Err(), "an error leaves the hold as it was")
		require.Equal(t, until, h.ValidUntil())
		require.Less(t, locktest.PTTL(t, s, c, "k"), 11*time.Minute, "nothing was requested")

		s.Do(t, "DEL", locktest.KeyOf(c, "k"))
		require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrLockLost)
		require.ErrorIs(t, context.Cause(h.Context()), relock.ErrLockLost)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
		require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrLockLost)
		locktest.RequireFree(t, s, c, "k")
	})
}

func TestMinHold(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, s *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		kept := func(key string, minimum time.Duration) locktest.AnyLock {
			l := newLock(key, c, relock.WithMinHold(minimum))
			require.NoError(t, l.Lock(t.Context()))
			time.Sleep(min(minimum, 20*time.Millisecond))
			require.NoError(t, l.Unlock(t.Context()))
			return l
		}
		kept("over", 10*time.Millisecond)
		locktest.RequireFree(t, s, c, "over")
		const long = "longer than the lease"
		l := kept(long, 10*time.Minute)
		require.Greater(t, locktest.PTTL(t, s, c, long), 9*time.Minute)
		require.ErrorIs(t, newLock(long, c).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
		require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)

		start, clock := time.Now(), testkit.NewStopwatch(t)
		kept("k", time.Second)
		require.LessOrEqual(t, locktest.PTTL(t, s, c, "k"), time.Second)
		require.NoError(t, newLock("k", locktest.Sibling(t, s, c), relock.WithBlock()).Lock(t.Context()))
		require.GreaterOrEqual(t, time.Since(start), time.Second)
		clock.Within(time.Second + promptness)
	})
}

// The minimum is kept also if no release reaches the server before the lease
// has expired.
func TestMinHoldOutlivesTheLease(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, s *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		other := locktest.Sibling(t, s, c)
		start, clock := time.Now(), testkit.NewStopwatch(t)
		err := newLock("k", c, relock.WithExpiry(600*time.Millisecond), relock.WithMinHold(1200*time.Millisecond)).
			Lock(t.Context())
		if relock.OutcomeOf(err) != relock.OutcomeUnavailable { // a grant that is too late for its lease is kept, too
			require.NoError(t, err)
		}
		require.NoError(t, c.Close()) // as a crash: nothing is released
		require.NoError(t, newLock("k", other, relock.WithBlock()).Lock(t.Context()))
		require.GreaterOrEqual(t, time.Since(start), 1200*time.Millisecond)
		clock.Within(1200*time.Millisecond + promptness)
	})
}

func TestMaxHold(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, s *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		const limit = 500 * time.Millisecond
		var clock *testkit.Stopwatch
		h := takeInTime(t, func(ctx context.Context) (relock.Hold, error) {
			clock = testkit.NewStopwatch(t)
			return newLock("k", c, relock.WithMaxHold(limit)).Acquire(ctx)
		})
		locktest.RequireIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrMaxHold, relock.ErrLockLost)
		clock.Within(limit + promptness)
		require.ErrorIs(t, h.Err(), relock.ErrMaxHold)
		require.Zero(t, h.ValidUntil())
		// Sooner than its lease of 30 s ends, which was renewed within 10 s.
		testkit.Eventually(t, 20*time.Second, func() bool { return locktest.PTTL(t, s, c, "k") < 0 }, "it is released")
		locktest.RequireIs(t, h.Unlock(t.Context()), relock.ErrMaxHold, relock.ErrLockLost, relock.ErrNotHeld)
	})
}

// HoldCount returns the caller's levels, of this client.
func TestHoldCount(t *testing.T) {
	t.Parallel()
	s, mine := redistest.Shared(t), locktest.As(t, "me")
	c := locktest.NewTestClient(t, s)
	same := relock.NewReentrantLock("k", c, relock.WithWatchdog(time.Hour))
	l := locktest.Owned("me", same)
	require.Zero(t, same.HoldCount(mine))
	var h relock.Hold
	for n := range 3 {
		h = locktest.Take(t, l.Acquire)
		require.Equal(t, n+1, same.HoldCount(mine))
	}
	require.Zero(t, same.HoldCount(relock.ContextWithOwner(t.Context(), "other")))
	require.Zero(t, relock.NewReentrantLock("k", locktest.Sibling(t, s, c)).HoldCount(mine))
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, 2, same.HoldCount(mine))
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	locktest.RenewNow(h)
	testkit.Eventually(t, testkit.Patience, func() bool { return same.HoldCount(mine) == 0 }, "lost")
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.Zero(t, same.HoldCount(relock.ContextWithOwner(t.Context(), "")))
}

package relock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestMinHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			start := time.Now()
			l := newLock("k", c, relock.WithMinHold(1800*time.Millisecond))
			require.NoError(t, l.Lock(t.Context()))
			require.NoError(t, l.Unlock(t.Context()))
			require.Less(t, time.Since(start), 1650*time.Millisecond, "Unlock returns at once")
			require.LessOrEqual(t, locktest.Pttl(t, s, c, "k"), 1800*time.Millisecond)
			require.ErrorIs(t, newLock("k", c).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
			require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)

			require.NoError(t, newLock("k", locktest.Sibling(t, s, c), relock.WithBlock()).Lock(t.Context()))
			require.GreaterOrEqual(t, time.Since(start), 1800*time.Millisecond)
			require.Less(t, time.Since(start), 4200*time.Millisecond)
		})
	}
}

func TestMinHoldLongerThanTheLease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewRedisLock("k", c, relock.WithExpiry(3*time.Second), relock.WithMinHold(15*time.Second))
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	require.Greater(t, locktest.Pttl(t, s, c, "k"), 12*time.Second)
}

// The minimum is kept also when no release comes through before the lease has ended.
func TestMinHoldOutlivesTheLease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			other := locktest.Sibling(t, s, c)
			start := time.Now()
			require.NoError(t, newLock("k", c, relock.WithExpiry(1800*time.Millisecond), relock.WithMinHold(3*time.Second)).Lock(t.Context()))
			require.NoError(t, c.Close()) // as a crash: nothing is released
			require.NoError(t, newLock("k", other, relock.WithBlock()).Lock(t.Context()))
			require.GreaterOrEqual(t, time.Since(start), 3*time.Second)
			require.Less(t, time.Since(start), 7*time.Second)
		})
	}
}

func TestMinHoldThatIsOverFreesAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c, relock.WithMinHold(20*time.Millisecond))
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	over := time.Now().Add(25 * time.Millisecond)
	testkit.Eventually(t, time.Second, func() bool { return time.Now().After(over) }, "the minimum is over")
	require.NoError(t, h.Unlock(t.Context()))
	locktest.RequireFree(t, s, c, "k")
}

func TestMaxHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			h, err := newLock("k", c, relock.WithMaxHold(time.Second)).Acquire(t.Context())
			require.NoError(t, err)
			cause := testkit.EndedWithin(t, h.Context(), 5*time.Second)
			require.ErrorIs(t, cause, relock.ErrMaxHold)
			require.ErrorIs(t, cause, relock.ErrLockLost)
			require.ErrorIs(t, h.Err(), relock.ErrMaxHold)
			require.Zero(t, h.ValidUntil())
			testkit.Eventually(t, time.Second, func() bool { return locktest.Pttl(t, s, c, "k") < 0 }, "it is released")
			err = h.Unlock(t.Context())
			require.ErrorIs(t, err, relock.ErrMaxHold)
			require.ErrorIs(t, err, relock.ErrLockLost)
			require.ErrorIs(t, err, relock.ErrNotHeld)
		})
	}
}

package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestMinHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			start := time.Now()
			l := newLock("k", c, WithMinHold(1800*time.Millisecond))
			require.NoError(t, l.Lock(t.Context()))
			require.NoError(t, l.Unlock(t.Context()))
			require.Less(t, time.Since(start), 1650*time.Millisecond, "Unlock returns at once")
			require.LessOrEqual(t, pttl(t, s, c, "k"), 1800*time.Millisecond)
			require.ErrorIs(t, newLock("k", c).TryLock(t.Context()), ErrLockAcquiredByOthers)
			require.ErrorIs(t, l.Unlock(t.Context()), ErrNotHeld)

			require.NoError(t, newLock("k", sibling(t, s, c), WithBlock()).Lock(t.Context()))
			require.GreaterOrEqual(t, time.Since(start), 1800*time.Millisecond)
			require.Less(t, time.Since(start), 4200*time.Millisecond)
		})
	}
}

func TestMinHoldLongerThanTheLease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewRedisLock("k", c, WithExpiry(3*time.Second), WithMinHold(15*time.Second))
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	require.Greater(t, pttl(t, s, c, "k"), 12*time.Second)
}

// The minimum is kept also when no release comes through before the lease has ended.
func TestMinHoldOutlivesTheLease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			other := sibling(t, s, c)
			start := time.Now()
			require.NoError(t, newLock("k", c, WithExpiry(1800*time.Millisecond), WithMinHold(3*time.Second)).Lock(t.Context()))
			require.NoError(t, c.Close()) // as a crash: nothing is released
			require.NoError(t, newLock("k", other, WithBlock()).Lock(t.Context()))
			require.GreaterOrEqual(t, time.Since(start), 3*time.Second)
			require.Less(t, time.Since(start), 7*time.Second)
		})
	}
}

func TestMinHoldThatIsOverFreesAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c, WithMinHold(20*time.Millisecond))
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	over := time.Now().Add(25 * time.Millisecond)
	testkit.Eventually(t, time.Second, func() bool { return time.Now().After(over) }, "the minimum is over")
	require.NoError(t, h.Unlock(t.Context()))
	requireFree(t, s, c, "k")
}

func TestMaxHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			h, err := newLock("k", c, WithMaxHold(time.Second)).Acquire(t.Context())
			require.NoError(t, err)
			cause := testkit.EndedWithin(t, h.Context(), 5*time.Second)
			require.ErrorIs(t, cause, ErrMaxHold)
			require.ErrorIs(t, cause, ErrLockLost)
			require.ErrorIs(t, h.Err(), ErrMaxHold)
			require.Zero(t, h.ValidUntil())
			testkit.Eventually(t, time.Second, func() bool { return pttl(t, s, c, "k") < 0 }, "it is released")
			err = h.Unlock(t.Context())
			require.ErrorIs(t, err, ErrMaxHold)
			require.ErrorIs(t, err, ErrLockLost)
			require.ErrorIs(t, err, ErrNotHeld)
		})
	}
}

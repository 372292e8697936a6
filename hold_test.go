package relock

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

type userKey struct{}

func TestHoldContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), userKey{}, "value"))
			h, err := newLock("k", c).Acquire(ctx)
			require.NoError(t, err)
			cancel()
			require.NoError(t, h.Context().Err(), "it does not end with the context of the acquire")
			require.Equal(t, "value", h.Context().Value(userKey{}))
			carried, ok := HoldFromContext(h.Context(), "k")
			require.True(t, ok)
			require.Equal(t, h, carried)
			require.NoError(t, h.Err())

			require.NoError(t, h.Unlock(ctx))
			require.Equal(t, ErrNotHeld, context.Cause(h.Context()))
			require.ErrorIs(t, h.Err(), ErrNotHeld)
			require.Zero(t, h.ValidUntil())
			require.Zero(t, h.Fence())
			require.Equal(t, "k", h.Key())
		})
	}
}

func TestContextAskedForAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	h, err := NewRedisLock("k", newTestClient(t, s)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	require.Equal(t, ErrNotHeld, context.Cause(h.Context()))
}

// Belief: from before the sending, one lease less the drift, and it ends without any answer.
func TestBeliefEndsBeforeTheLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const lease = 2400 * time.Millisecond
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			c := newTestClient(t, s)
			before := time.Now()
			h, err := newLock("k", c, WithExpiry(lease)).Acquire(t.Context())
			after := time.Now()
			require.NoError(t, err)
			margin := 26 * time.Millisecond // 1 % and 2 ms
			require.False(t, h.ValidUntil().Before(before.Add(lease-margin)))
			require.False(t, h.ValidUntil().After(after.Add(lease-margin)))

			s.Pause(t)
			due := setAlarm(t, h.ValidUntil())
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 2*lease), ErrLockLost)
			require.NoError(t, due.prompt())
			require.ErrorIs(t, h.Err(), ErrLockLost)
			s.Resume(t)
			require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
			testkit.Eventually(t, time.Second, func() bool { return pttl(t, s, c, "k") < 0 }, "the key is gone")
		})
	}
}

// Err goes by the clock at the call, also when no timer could fire.
func TestErrDoesNotNeedTheTimer(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	h, err := NewRedisLock("k", newTestClient(t, s), WithExpiry(2400*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	l := h.(hold).level.Lease()
	l.StopTimer()
	<-time.After(time.Until(l.State().ValidUntil))
	require.ErrorIs(t, h.Err(), ErrLockLost)
	require.ErrorIs(t, context.Cause(h.Context()), ErrLockLost)
}

func TestExtend(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			h, err := newLock("k", c, WithExpiry(2*time.Second)).Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.Extend(t.Context(), 10*time.Second))
			require.Greater(t, pttl(t, s, c, "k"), 9*time.Second)
			require.Greater(t, time.Until(h.ValidUntil()), 9*time.Second)

			require.NoError(t, h.Extend(t.Context(), time.Second))
			require.Greater(t, pttl(t, s, c, "k"), 8*time.Second, "never shorter")
			require.Greater(t, time.Until(h.ValidUntil()), 8*time.Second)

			for _, d := range []time.Duration{0, -time.Second, 9 * time.Millisecond, 1500 * time.Microsecond * 7, 1 << 62} {
				require.ErrorIs(t, h.Extend(t.Context(), d), ErrInvalid, "%v", d)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, h.Extend(ended, time.Minute), context.Canceled)
			require.NoError(t, h.Err(), "an error leaves the hold as it was")
			require.Equal(t, 10*time.Second, leaseOf(h).State().Length, "nothing was asked for")

			s.Do(t, "DEL", keyOf(c, "k"))
			require.ErrorIs(t, h.Extend(t.Context(), time.Minute), ErrLockLost)
			require.ErrorIs(t, context.Cause(h.Context()), ErrLockLost)
			require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
			require.ErrorIs(t, h.Extend(t.Context(), time.Minute), ErrLockLost)
			requireFree(t, s, c, "k")
		})
	}
}

func TestExtendAfterUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	h, err := NewRedisLock("k", newTestClient(t, s)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	err = h.Extend(t.Context(), time.Minute)
	require.ErrorIs(t, err, ErrNotHeld)
	require.NotErrorIs(t, err, ErrLockLost)
}

func TestUnlockTwiceAfterALoss(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	h, err := NewRedisLock("k", newTestClient(t, s), WithExpiry(1800*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	_ = testkit.EndedWithin(t, h.Context(), 4200*time.Millisecond)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, ErrNotHeld)
	require.NotErrorIs(t, err, ErrLockLost, "the loss was told once")
}

// Without an answer Unlock is not confirmed, and the release goes on until it is.
func TestUnlockUnconfirmed(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	s := redistest.Start(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			c := newTestClient(t, s, WithCommandTimeout(limit))
			h, err := newLock("k", c).Acquire(t.Context())
			require.NoError(t, err)
			s.Pause(t)
			start := time.Now()
			err = h.Unlock(t.Context())
			require.Less(t, time.Since(start), 2*limit, "the command timeout bounds it")
			require.ErrorIs(t, err, ErrUnconfirmed)
			require.NotErrorIs(t, err, ErrLockLost)
			require.False(t, IsRetryableErr(err))
			require.ErrorIs(t, h.Err(), ErrNotHeld, "over, whatever Unlock returned")
			require.ErrorIs(t, h.Unlock(t.Context()), ErrNotHeld)
			s.Resume(t)
			testkit.Eventually(t, 2*time.Second, func() bool { return pttl(t, s, c, "k") < 0 }, "released in the background")
		})
	}
}

func TestDoLogsWhatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var log logBuffer
	c := newTestClient(t, s, WithCommandTimeout(time.Second), log.option())
	require.NoError(t, NewRedisLock("k", c).Do(t.Context(), func(context.Context) error {
		s.Pause(t)
		return nil
	}))
	s.Resume(t)
	require.Contains(t, log.String(), "release not confirmed")
}

func TestHoldShowsNoSecret(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewReentrantLock("k", c)
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	id := leaseOf(h).Protocol().HoldID()
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(format, h), id)
		require.NotContains(t, fmt.Sprintf(format, c), c.engine.Identity.ID)
	}
}

func TestHoldFromContextFindsTheNewest(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	_, ok := HoldFromContext(t.Context(), "a")
	require.False(t, ok)
	a, err := NewRedisLock("a", c).Acquire(t.Context())
	require.NoError(t, err)
	b, err := NewRedisLock("b", c).Acquire(a.Context())
	require.NoError(t, err)
	got, _ := HoldFromContext(b.Context(), "a")
	require.Equal(t, a, got)
	got, _ = HoldFromContext(b.Context(), "b")
	require.Equal(t, b, got)
}

// The engine's holds have methods that are no user's business.
func TestUsersHoldsHaveTheMethodsOfHold(t *testing.T) {
	t.Parallel()
	public, own := reflect.TypeFor[Hold](), reflect.TypeFor[hold]()
	for i := range own.NumMethod() {
		m := own.Method(i)
		if _, ok := public.MethodByName(m.Name); !ok && m.Name != "String" {
			t.Errorf("%s is no method of Hold", m.Name)
		}
	}
}

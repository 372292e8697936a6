package relock_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

type userKey struct{}

func TestHoldContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), userKey{}, "value"))
			h, err := newLock("k", c).Acquire(ctx)
			require.NoError(t, err)
			cancel()
			require.NoError(t, h.Context().Err(), "it does not end with the context of the acquire")
			require.Equal(t, "value", h.Context().Value(userKey{}))
			carried, ok := relock.HoldFromContext(h.Context(), "k")
			require.True(t, ok)
			require.Equal(t, h, carried)
			require.NoError(t, h.Err())

			require.NoError(t, h.Unlock(ctx))
			require.Equal(t, relock.ErrNotHeld, context.Cause(h.Context()))
			require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
			require.Zero(t, h.ValidUntil())
			require.Zero(t, h.Fence())
			require.Equal(t, "k", h.Key())
		})
	}
}

func TestContextAskedForAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	h, err := relock.NewRedisLock("k", locktest.NewTestClient(t, s)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	require.Equal(t, relock.ErrNotHeld, context.Cause(h.Context()))
}

// Belief: from before the sending, one lease less the drift, and it ends without any answer.
func TestBeliefEndsBeforeTheLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const lease = 2400 * time.Millisecond
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			c := locktest.NewTestClient(t, s)
			before := time.Now()
			h, err := newLock("k", c, relock.WithExpiry(lease)).Acquire(t.Context())
			after := time.Now()
			require.NoError(t, err)
			margin := 26 * time.Millisecond // 1 % and 2 ms
			require.False(t, h.ValidUntil().Before(before.Add(lease-margin)))
			require.False(t, h.ValidUntil().After(after.Add(lease-margin)))

			s.Pause(t)
			due := locktest.SetAlarm(t, h.ValidUntil())
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 2*lease), relock.ErrLockLost)
			require.NoError(t, due.Prompt())
			require.ErrorIs(t, h.Err(), relock.ErrLockLost)
			s.Resume(t)
			require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
			testkit.Eventually(t, time.Second, func() bool { return locktest.Pttl(t, s, c, "k") < 0 }, "the key is gone")
		})
	}
}

// Err goes by the clock at the call, also when no timer could fire.
func TestErrDoesNotNeedTheTimer(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	h, err := relock.NewRedisLock("k", locktest.NewTestClient(t, s), relock.WithExpiry(2400*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	l := locktest.Level(h).Lease()
	l.StopTimer()
	<-time.After(time.Until(l.State().ValidUntil))
	require.ErrorIs(t, h.Err(), relock.ErrLockLost)
	require.ErrorIs(t, context.Cause(h.Context()), relock.ErrLockLost)
}

func TestExtend(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			h, err := newLock("k", c, relock.WithExpiry(2*time.Second)).Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.Extend(t.Context(), 10*time.Second))
			require.Greater(t, locktest.Pttl(t, s, c, "k"), 9*time.Second)
			require.Greater(t, time.Until(h.ValidUntil()), 9*time.Second)

			require.NoError(t, h.Extend(t.Context(), time.Second))
			require.Greater(t, locktest.Pttl(t, s, c, "k"), 8*time.Second, "never shorter")
			require.Greater(t, time.Until(h.ValidUntil()), 8*time.Second)

			for _, d := range []time.Duration{0, -time.Second, 9 * time.Millisecond, 1500 * time.Microsecond * 7, 1 << 62} {
				require.ErrorIs(t, h.Extend(t.Context(), d), relock.ErrInvalid, "%v", d)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, h.Extend(ended, time.Minute), context.Canceled)
			require.NoError(t, h.Err(), "an error leaves the hold as it was")
			require.Equal(t, 10*time.Second, locktest.LeaseOf(h).State().Length, "nothing was asked for")

			s.Do(t, "DEL", locktest.KeyOf(c, "k"))
			require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrLockLost)
			require.ErrorIs(t, context.Cause(h.Context()), relock.ErrLockLost)
			require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
			require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrLockLost)
			locktest.RequireFree(t, s, c, "k")
		})
	}
}

func TestExtendAfterUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	h, err := relock.NewRedisLock("k", locktest.NewTestClient(t, s)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	err = h.Extend(t.Context(), time.Minute)
	require.ErrorIs(t, err, relock.ErrNotHeld)
	require.NotErrorIs(t, err, relock.ErrLockLost)
}

func TestUnlockTwiceAfterALoss(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	h, err := relock.NewRedisLock("k", locktest.NewTestClient(t, s), relock.WithExpiry(1800*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	_ = testkit.EndedWithin(t, h.Context(), 4200*time.Millisecond)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotHeld)
	require.NotErrorIs(t, err, relock.ErrLockLost, "the loss was told once")
}

// Without an answer Unlock is not confirmed, and the release goes on until it is.
func TestUnlockUnconfirmed(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	s := redistest.Start(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			c := locktest.NewTestClient(t, s, relock.WithCommandTimeout(limit))
			h, err := newLock("k", c).Acquire(t.Context())
			require.NoError(t, err)
			s.Pause(t)
			start := time.Now()
			err = h.Unlock(t.Context())
			require.Less(t, time.Since(start), 2*limit, "the command timeout bounds it")
			require.ErrorIs(t, err, relock.ErrUnconfirmed)
			require.NotErrorIs(t, err, relock.ErrLockLost)
			require.False(t, relock.IsRetryableErr(err))
			require.ErrorIs(t, h.Err(), relock.ErrNotHeld, "over, whatever Unlock returned")
			require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
			s.Resume(t)
			testkit.Eventually(t, 2*time.Second, func() bool { return locktest.Pttl(t, s, c, "k") < 0 }, "released in the background")
		})
	}
}

func TestDoLogsWhatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var log locktest.LogBuffer
	c := locktest.NewTestClient(t, s, relock.WithCommandTimeout(time.Second), log.Option())
	require.NoError(t, relock.NewRedisLock("k", c).Do(t.Context(), func(context.Context) error {
		s.Pause(t)
		return nil
	}))
	s.Resume(t)
	require.Contains(t, log.String(), "release not confirmed")
}

func TestHoldShowsNoSecret(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c)
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	id := locktest.LeaseOf(h).Protocol().HoldID()
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(format, h), id)
		require.NotContains(t, fmt.Sprintf(format, c), locktest.Engine(c).Identity.ID)
	}
}

func TestHoldFromContextFindsTheNewest(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	_, ok := relock.HoldFromContext(t.Context(), "a")
	require.False(t, ok)
	a, err := relock.NewRedisLock("a", c).Acquire(t.Context())
	require.NoError(t, err)
	b, err := relock.NewRedisLock("b", c).Acquire(a.Context())
	require.NoError(t, err)
	got, _ := relock.HoldFromContext(b.Context(), "a")
	require.Equal(t, a, got)
	got, _ = relock.HoldFromContext(b.Context(), "b")
	require.Equal(t, b, got)
}

// The engine's holds have methods that are no user's business.
func TestUsersHoldsHaveTheMethodsOfHold(t *testing.T) {
	t.Parallel()
	h, err := relock.NewRedisLock("k", locktest.NewTestClient(t, redistest.Shared(t))).Acquire(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Unlock(t.Context())) }()
	public, own := reflect.TypeFor[relock.Hold](), reflect.TypeOf(h)
	for i := range own.NumMethod() {
		m := own.Method(i)
		if _, ok := public.MethodByName(m.Name); !ok && m.Name != "String" {
			t.Errorf("%s is no method of Hold", m.Name)
		}
	}
}

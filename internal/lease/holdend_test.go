package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A hold is valid for one lease less the drift, from before the request was
// sent. Its validity ends without any reply.
func TestValidityEndsBeforeTheLease(t *testing.T) {
	t.Parallel()
	const length = 1200 * time.Millisecond
	const margin = 14 * time.Millisecond // 1 % and 2 ms
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := locktest.NewTestClient(t, s)
			before := time.Now()
			h, err := newLock("k", c, relock.WithExpiry(length)).Acquire(t.Context())
			after := time.Now()
			require.NoError(t, err)
			require.WithinRange(t, h.ValidUntil(), before.Add(length-margin), after.Add(length-margin))

			s.Pause(t)
			due := locktest.SetAlarm(t, h.ValidUntil())
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 2*length), relock.ErrLockLost)
			require.NoError(t, due.Prompt())
			require.ErrorIs(t, h.Err(), relock.ErrLockLost)
			s.Resume(t)
			require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
			testkit.Eventually(t, testkit.Patience, func() bool { return locktest.PTTL(t, s, c, "k") < 0 }, "the key is gone")
		})
	}
}

// Err goes by the clock at the call, also if no timer could fire.
func TestErrDoesNotNeedTheTimer(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	h, err := relock.NewRedisLock("k", c, relock.WithExpiry(800*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	l := locktest.LeaseOf(h)
	l.StopTimer()
	<-time.After(time.Until(l.State().ValidUntil))
	require.ErrorIs(t, h.Err(), relock.ErrLockLost)
	require.ErrorIs(t, context.Cause(h.Context()), relock.ErrLockLost)
}

// A renewal works on a server that has forgotten its scripts.
func TestRenewalAfterScriptFlush(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	for name, newLock := range locktest.Kinds {
		h, err := newLock(name, c).Acquire(t.Context())
		require.NoError(t, err)
		for range 3 {
			locktest.LeaseOf(h).RenewNow()
			locktest.AwaitRenewal(t, h, 5*time.Second)
			s.Do(t, "SCRIPT", "FLUSH")
		}
		require.NoError(t, h.Unlock(t.Context()))
	}
}

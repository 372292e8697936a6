package relock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/relocktest"
)

// leads is a function of a Leader that runs until its leadership ends.
func leads(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// runLeader runs a Leader until stop is called, which waits for its end.
func runLeader(t *testing.T, e *relock.Leader, fn func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := testkit.Async(t, func() error { return e.Run(ctx, fn) })
	synctest.Wait()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// requirePause checks a pause of up to full, which is shortened by less than a
// fifth.
func requirePause(t *testing.T, full, pause time.Duration) {
	t.Helper()
	require.LessOrEqual(t, pause, full)
	require.Greater(t, pause, full*4/5)
}

// The pause doubles after each short term, up to 30 s. After a term of a minute
// it is a second again.
func TestLeaderPauses(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var pauses []time.Duration
		ended := time.Now()
		err := relock.NewLeader(relocktest.NewLocker(), "k").Run(t.Context(), func(context.Context) error {
			pauses = append(pauses, time.Since(ended))
			defer func() { ended = time.Now() }()
			switch len(pauses) {
			case 8:
				time.Sleep(time.Minute)
			case 9:
				time.Sleep(time.Minute - 1)
			case 11:
				return nil
			}
			return locktest.ErrMine
		})
		require.NoError(t, err)
		require.Zero(t, pauses[0])
		for i, full := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 1, 2, 4} {
			requirePause(t, full*time.Second, pauses[i+1])
		}
	})
}

// While a Leader pauses after a loss, the next one leads. IsLeader is nil for
// the one whose function runs under a valid hold, and for no other.
func TestLeaderIsFollowed(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := relocktest.NewLocker()
		ann, bob := relock.NewLeader(l, "k"), relock.NewLeader(l, "k")
		require.ErrorIs(t, ann.IsLeader(t.Context()), relock.ErrNotHeld)
		var causes []error
		stopAnn := runLeader(t, ann, func(ctx context.Context) error {
			require.NoError(t, ann.IsLeader(ctx))
			err := leads(ctx)
			if errors.Is(err, relock.ErrLockLost) {
				require.ErrorIs(t, ann.IsLeader(ctx), err)
			}
			causes = append(causes, err)
			return err
		})
		stopBob := runLeader(t, bob, leads)
		require.NoError(t, ann.IsLeader(t.Context()))
		require.ErrorIs(t, bob.IsLeader(t.Context()), relock.ErrNotHeld)

		require.True(t, l.Lose("k"))
		synctest.Wait()
		require.Len(t, causes, 1)
		require.ErrorIs(t, causes[0], relock.ErrLockLost)
		require.ErrorIs(t, ann.IsLeader(t.Context()), relock.ErrNotHeld)
		require.NoError(t, bob.IsLeader(t.Context()))
		require.Zero(t, l.Waiting("k"), "ann pauses")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, l.Waiting("k"), "ann campaigns again")

		stopBob()
		synctest.Wait()
		require.ErrorIs(t, bob.IsLeader(t.Context()), relock.ErrNotHeld)
		require.NoError(t, ann.IsLeader(t.Context()))
		stopAnn()
		require.ErrorIs(t, ann.IsLeader(t.Context()), relock.ErrNotHeld)
	})
}

// IsLeader is by the clock: it ends with the lease, also if the function goes
// on. Then others lead, and this Leader does not campaign.
func TestLeaderWhoseFunctionGoesOn(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := relocktest.NewLocker(relock.WithExpiry(10 * time.Second))
		ann, bob := relock.NewLeader(l, "k"), relock.NewLeader(l, "k")
		var running, most, terms atomic.Int32
		var until time.Time
		over := make(chan struct{})
		defer close(over) // of the test
		stopAnn := runLeader(t, ann, func(ctx context.Context) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			if terms.Add(1) > 1 {
				return leads(ctx)
			}
			hold, _ := relock.HoldFromContext(ctx, "k")
			until = hold.ValidUntil()
			select {
			case <-time.After(time.Hour):
			case <-over:
			}
			return ctx.Err()
		})
		stopBob := runLeader(t, bob, leads)
		time.Sleep(time.Until(until) - 1)
		require.NoError(t, ann.IsLeader(t.Context()))
		require.ErrorIs(t, bob.IsLeader(t.Context()), relock.ErrNotHeld)
		time.Sleep(time.Nanosecond)
		require.ErrorIs(t, ann.IsLeader(t.Context()), relock.ErrLockLost)
		synctest.Wait()
		require.NoError(t, bob.IsLeader(t.Context()))

		time.Sleep(59 * time.Minute)
		synctest.Wait()
		require.Equal(t, int32(1), running.Load())
		require.Equal(t, int32(1), terms.Load())
		stopBob()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Greater(t, terms.Load(), int32(1), "it campaigns when its function has returned")
		require.Equal(t, int32(1), most.Load(), "one at a time")
		stopAnn()
	})
}

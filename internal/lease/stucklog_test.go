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

// A log handler that blocks keeps nobody up but who logs: calls end, and holds are renewed.
func TestLogHandlerThatBlocks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	stuck := locktest.NewStuckLog(t)
	defer stuck.Free()
	c := locktest.NewTestClient(t, s, stuck.Option(), relock.WithWatchdog(3*time.Second))
	one, err := relock.NewRedisLock("one", c).Acquire(t.Context())
	require.NoError(t, err)
	other, err := relock.NewRedisLock("other", c).Acquire(t.Context())
	require.NoError(t, err)
	theirs, err := relock.NewRedisLock("theirs", locktest.Sibling(t, s, c)).Acquire(t.Context())
	require.NoError(t, err)
	waiting := testkit.Async(t, func() error { return relock.NewRedisLock("theirs", c, relock.WithBlock()).Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Engine(c).Queue.State().Subscribed }, "the subscription is there")

	s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	stuck.Await(t)
	require.NoError(t, testkit.ResultWithin(t, testkit.Async(t, func() error { return other.Unlock(t.Context()) }), testkit.Patience))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	left := testkit.Async(t, func() error { return relock.NewRedisLock("theirs", c, relock.WithBlock()).Lock(ctx) })
	require.ErrorIs(t, testkit.ResultWithin(t, left, testkit.Patience), context.DeadlineExceeded)
	until := one.ValidUntil()
	testkit.Eventually(t, testkit.Patience, func() bool { return one.ValidUntil().After(until) }, "is renewed")
	require.NoError(t, theirs.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience), "it polls")
	require.NoError(t, one.Unlock(t.Context()))
}

// What was lost is given back before anything is logged.
func TestLossIsLoggedLast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	stuck := locktest.NewStuckLog(t)
	defer stuck.Free()
	c := locktest.NewTestClient(t, s, stuck.Option())
	for _, l := range []locktest.AnyLock{relock.NewRedisLock("one", c, relock.WithMaxHold(time.Hour)), relock.NewMultiLock([]string{"a", "b"}, c, relock.WithMaxHold(time.Hour))} {
		h, err := l.Acquire(t.Context())
		require.NoError(t, err)
		go locktest.Level(h).ReachMaxHold() // Close waits for its clean-up, the test for its end by freeing the log
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrMaxHold)
		stuck.Await(t)
		testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "DBSIZE") == int64(0) }, "keys are left")
	}
}

// The belief in a hold that the server has refused ends sooner while other calls begin and end theirs: a test for the race detector.
func TestRefusedHoldBesideOthers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, key := range []string{"a", "b", "c", "d"} {
		l := relock.NewRedisLock(key, c)
		testkit.Async(t, func() error {
			for ctx.Err() == nil {
				_ = l.Do(ctx, locktest.Nothing)
			}
			return nil
		})
	}
	h, err := relock.NewRedisLock("k", c, relock.WithExpiry(time.Hour)).Acquire(t.Context())
	require.NoError(t, err)
	for n := range 5000 { // the pauses let the others change places with it
		locktest.Level(h).Lease().Refuse(time.Hour/2 - time.Duration(n)*time.Millisecond)
		time.Sleep(10 * time.Microsecond)
	}
	require.NoError(t, h.Unlock(t.Context()))
}

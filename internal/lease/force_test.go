package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The release of an inner level may be the first to find that the hold was
// ended by force, in the background.
func TestForceUnlockIsFoundByAnInnerLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	outer := locktest.Take(t, locktest.Owned("me", relock.NewReentrantLock("k", c)).Acquire)
	inner := locktest.Take(t, locktest.Owned("me", relock.NewReentrantLock("k", c, relock.WithMaxHold(time.Hour))).Acquire)
	other := locktest.Sibling(t, s, c)
	forced := testkit.Async(t, func() error { return other.ForceUnlock(t.Context(), "k", "why") })
	locktest.AwaitMarked(t, other, "k")
	locktest.Level(inner).ReachMaxHold()
	require.ErrorIs(t, inner.Err(), relock.ErrMaxHold)
	require.ErrorIs(t, testkit.EndedWithin(t, outer.Context(), lockspec.DefaultLease/6), relock.ErrForced,
		"before a renewal")
	require.ErrorContains(t, outer.Err(), "why")
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrForced)
	require.NoError(t, testkit.ResultWithin(t, forced, testkit.Patience))
}

// A forged message ends no hold.
func TestForgedForceMessage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	h := locktest.Take(t, relock.NewRedisLock("k", c).Acquire)
	p := leaseOf(h).Protocol()
	require.Equal(t, locktest.KeyOf(c, "k"), p.LockKey())
	locktest.Engine(c).Forced(p.HoldID(), p.LockKey())
	locktest.Engine(c).Forced("another", p.LockKey())
	locktest.Engine(c).Forced("", "elsewhere")
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Calls(t, s, "hmget") == 1 },
		"the notice was read")
	require.NoError(t, h.Err())
	waiter := p.HoldID() + ":pu:1250:00ff" // whose grant was ended, before it took the lock with the same id
	s.Do(t, "HSET", p.LockKey()+script.NoticeSuffix, waiter, "it hangs")
	locktest.Engine(c).Forced(p.HoldID(), p.LockKey())
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Calls(t, s, "hmget") == 2 },
		"the notice was read")
	_, ended := testkit.Await(h.Context().Done(), 100*time.Millisecond)
	require.False(t, ended, "ended")
	require.NoError(t, h.Unlock(t.Context()))
}

// The answer to a release may be lost that has found the mark. The next copy
// finds nothing, and Unlock returns ErrForced all the same.
func TestUnlockThatIsRepeatedFindsTheForce(t *testing.T) {
	t.Parallel()
	s := locktest.WithScripts(t, redistest.Start(t))
	c, proxy := locktest.Behind(t, s)
	other := locktest.Sibling(t, s, c)
	h := locktest.Take(t, relock.NewRedisLock("k", c).Acquire)
	forced := testkit.Async(t, func() error { return other.ForceUnlock(t.Context(), "k", "why") })
	locktest.AwaitMarked(t, other, "k")
	proxy.On(faults.Script(script.Release.SHA), 1, faults.CutAfter)
	err := h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrForced)
	require.ErrorContains(t, err, "why")
	require.NoError(t, testkit.ResultWithin(t, forced, testkit.Patience))
}

// The same with a waiter: the first copy has handed the lock off, so the key is
// no lock of this kind until the waiter claims it.
func TestRepeatedUnlockFindsTheForceBeforeTheClaim(t *testing.T) {
	t.Parallel()
	s := locktest.WithScripts(t, redistest.Start(t))
	c, proxy := locktest.Behind(t, s)
	far := faults.Start(t, s.Network, s.Address)
	waiting := locktest.Sibling(t, locktest.ServerOf(far), c)
	other := locktest.Sibling(t, s, c)
	h := locktest.Take(t, relock.NewReentrantLock("k", c, relock.WithFair()).Acquire)
	waits := testkit.Async(t, func() error {
		next, err := relock.NewReentrantLock("k", waiting, relock.WithFair(), relock.WithBlock()).Acquire(t.Context())
		if err != nil {
			return err
		}
		return next.Unlock(t.Context())
	})
	testkit.Eventually(t, testkit.Patience, func() bool {
		info, err := other.Inspect(t.Context(), "k")
		return err == nil && info.Waiting == 1
	}, "it waits")
	claims := make(chan struct{})
	far.On(faults.Any, faults.Every, faults.DelayRequestUntil(claims))
	forced := testkit.Async(t, func() error { return other.ForceUnlock(t.Context(), "k", "why") })
	locktest.AwaitMarked(t, other, "k")
	proxy.On(faults.Script(script.ReentrantRelease.SHA), 1, faults.CutAfter)
	err := h.Unlock(t.Context())
	close(claims)
	require.ErrorIs(t, err, relock.ErrForced)
	require.NoError(t, testkit.ResultWithin(t, forced, testkit.Patience))
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
}

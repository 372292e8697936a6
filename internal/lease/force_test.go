package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// The release of an inner level may be the first to find that the hold was
// ended by force, in the background.
func TestForceUnlockIsFoundByAnInnerLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	outer, err := locktest.Owned("me", relock.NewReentrantLock("k", c)).Acquire(t.Context())
	require.NoError(t, err)
	inner, err := locktest.Owned("me", relock.NewReentrantLock("k", c, relock.WithMaxHold(time.Hour))).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, locktest.Sibling(t, s, c).ForceUnlock(t.Context(), "k", "why"))
	locktest.Level(inner).ReachMaxHold()
	require.ErrorIs(t, inner.Err(), relock.ErrMaxHold)
	require.ErrorIs(t, testkit.EndedWithin(t, outer.Context(), lockspec.DefaultLease/6), relock.ErrForced, "before a renewal")
	require.ErrorContains(t, outer.Err(), "why")
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrForced)
}

// A forged message ends no hold.
func TestForgedForceMessage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	h, err := relock.NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	p := locktest.LeaseOf(h).Protocol()
	require.Equal(t, locktest.KeyOf(c, "k"), p.LockKey())
	locktest.Engine(c).Forced(p.HoldID(), p.LockKey())
	locktest.Engine(c).Forced("another", p.LockKey())
	locktest.Engine(c).Forced("", "elsewhere")
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Calls(t, s, "get") == 1 }, "the notice was read")
	select {
	case <-h.Context().Done():
		t.Error("ended")
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, h.Unlock(t.Context()))
}

// Close also releases a lock that was handed off to a call that has not taken
// it yet.
func TestReleaseOnCloseOfATransfer(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.ReentrantUnfair, 2, relock.WithReleaseOnClose())
	c := q.Clients[0]
	h := q.Take(c)
	first := q.WaitLocally(context.Background(), 0)
	owner := locktest.Engine(c).Queue.State().Lines[q.Key].Waiters[0].Attempt.(interface{ OwnerID() string }).OwnerID()
	goOn := locktest.Engine(c).Block(lease.OwnerKey{Lock: locktest.QueueKey, ID: owner, Family: lockspec.ReentrantFamily})
	locktest.NeverStale(h)
	q.Unlock(h)
	require.NoError(t, c.Close())
	require.Equal(t, int64(0), q.Server.Do(t, "EXISTS", q.Key))
	goOn()
	require.ErrorIs(t, first.End(), relock.ErrClosed)
}

package lease_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// The last Unlock gives the lock to the next call of the client by one request, in the order of their calls. The hold
// before is over, and cannot touch the next one, which has the whole lease.
func TestTransferred(t *testing.T) {
	t.Parallel()
	q, proxy := locktest.NewTransferBenchBehind(t)
	h := q.Take(q.Clients[0])
	first, second := q.Sits(t.Context(), 0), q.Sits(t.Context(), 1)
	place := q.SnapshotQueue()
	q.Server.Do(t, "PEXPIRE", q.Key, 5000)
	locktest.Fresh(h)
	asked := time.Now()
	q.Unlock(h)
	next := first.Granted()
	require.False(t, second.IsOver())
	require.EqualValues(t, 1, locktest.LeaseOf(next).State().Passes)
	require.False(t, next.ValidUntil().Before(asked.Add(lockspec.DefaultLease-lease.Drift(lockspec.DefaultLease))), "the whole lease")
	require.Greater(t, locktest.Pttl(t, q.Server, q.Clients[0], locktest.QueueKey), lockspec.DefaultLease-10*time.Second)
	q.RequireStored(next, 1)
	require.NotEqual(t, locktest.HoldOf(h), locktest.HoldOf(next))
	require.Equal(t, place, q.SnapshotQueue(), "one place for all of them")
	for name, s := range map[string]*script.Script{"release": script.ReentrantRelease, "claim": script.Claim} {
		require.Zero(t, proxy.Count(faults.Script(s.SHA)), name)
	}
	require.Equal(t, 1, proxy.Count(locktest.TransferOnly))

	require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
	require.ErrorIs(t, context.Cause(h.Context()), relock.ErrNotHeld)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrNotHeld)
	require.NoError(t, next.Err())
	require.NoError(t, next.Context().Err())

	inner, err := q.Lock(q.Clients[0]).Acquire(next.Context())
	require.NoError(t, err)
	q.RequireStored(next, 2)
	locktest.Fresh(next)
	q.Unlock(inner)
	require.False(t, second.IsOver(), "a level is left")
	q.RequireStored(next, 1)
	require.NoError(t, next.Extend(t.Context(), time.Hour))
	testkit.Eventually(t, testkit.Patience, func() bool { return q.RestsInRedis(q.Clients[0]) }, "the next one has its place")
	q.Unlock(next)
	last := second.Granted()
	require.EqualValues(t, 2, locktest.LeaseOf(last).State().Passes)
	require.LessOrEqual(t, locktest.Pttl(t, q.Server, q.Clients[0], locktest.QueueKey), lockspec.DefaultLease, "what the one before asked for does not count")
	q.RequireStored(last, 1)
	q.Unlock(last)
	q.RequireNothingLeft()
	q.RequireNoLines()
	q.RequireForgotten()
}

// A hold that was transferred is renewed, and lost when the key is.
func TestTransferredHoldIsWatched(t *testing.T) {
	t.Parallel()
	q := locktest.NewTransferBench(t)
	lease := relock.WithWatchdog(3 * time.Second)
	h := q.Take(q.Clients[0], lease)
	w := q.Sits(t.Context(), 0, lease)
	locktest.Fresh(h)
	q.Unlock(h)
	next := w.Granted()
	require.EqualValues(t, 1, locktest.LeaseOf(next).State().Passes)
	time.Sleep(4 * time.Second)
	require.NoError(t, next.Err())
	q.Server.Do(t, "DEL", q.Key)
	require.ErrorIs(t, testkit.EndedWithin(t, next.Context(), 5*time.Second), relock.ErrLockLost)
	require.ErrorIs(t, next.Unlock(t.Context()), relock.ErrLockLost)
	q.RequireForgotten()
}

// What a lock is not transferred for: the next call then gets it from Redis, by a hand-over.
func TestNotTransferred(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		holder, waiter []relock.LockOption
		set            func(h relock.Hold)
		transferred    bool // all the same: the lease begins anew
	}{
		"the time alone is over": {set: func(h relock.Hold) { locktest.GrantedAt(h, time.Now().Add(-waitqueue.PassAlone)) }},
		"given on a thousand times": {set: func(h relock.Hold) {
			locktest.LeaseOf(h).Set(func(s *lease.State) { s.Passes = waitqueue.PassesAlone })
		}},
		"a minimum hold":       {holder: []relock.LockOption{relock.WithMinHold(10 * time.Millisecond)}, waiter: []relock.LockOption{relock.WithMinHold(10 * time.Millisecond)}},
		"another lease":        {waiter: []relock.LockOption{relock.WithWatchdog(20 * time.Second)}},
		"another label":        {waiter: []relock.LockOption{relock.WithLabel("other")}},
		"another maximum hold": {waiter: []relock.LockOption{relock.WithMaxHold(time.Hour)}},
		"a request in doubt":   {set: func(h relock.Hold) { locktest.LeaseOf(h).Set(func(s *lease.State) { s.Doubt.Error = true }) }},
		"a level that keeps the key": {set: func(h relock.Hold) {
			locktest.LeaseOf(h).Set(func(s *lease.State) { s.Keep = time.Now().Add(time.Second) })
		}},
		"a fixed lease":               {holder: []relock.LockOption{relock.WithExpiry(20 * time.Second)}, waiter: []relock.LockOption{relock.WithExpiry(20 * time.Second)}, transferred: true},
		"less than half of the lease": {set: func(h relock.Hold) { locktest.BelieveLess(h, lockspec.DefaultLease/2) }, transferred: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := locktest.NewTransferBench(t)
			h := q.Take(q.Clients[0], tt.holder...)
			w := q.Sits(t.Context(), 0, tt.waiter...)
			if locktest.Fresh(h); tt.set != nil {
				tt.set(h)
			}
			q.Unlock(h)
			next := w.Granted()
			require.Equal(t, tt.transferred, locktest.LeaseOf(next).State().Passes == 1)
			q.RequireStored(next, 1)
			q.Unlock(next)
			testkit.Eventually(t, testkit.Patience, func() bool { return q.Server.Do(t, "EXISTS", q.Key) == int64(0) }, "free")
			q.RequireNoLines()
			q.RequireForgotten()
		})
	}
}

// When one of an owner's goroutines is given the lock, the others that sit go one level deeper, and keep no place.
func TestOwnersOfSeats(t *testing.T) {
	t.Parallel()
	q := locktest.NewTransferBench(t)
	h := q.Take(q.Clients[0])
	both := relock.WithOwner("both")
	first, stranger, second := q.Sits(t.Context(), 0, both), q.Sits(t.Context(), 1), q.Sits(t.Context(), 2, both)
	locktest.Fresh(h)
	q.Unlock(h)
	outer, inner := first.Granted(), second.Granted()
	require.Same(t, locktest.LeaseOf(outer), locktest.LeaseOf(inner))
	q.RequireStored(outer, 2)
	require.False(t, stranger.IsOver())
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.WaitingIn(q.Clients[0], q.Key) == 1 }, "one sits")
	locktest.Fresh(outer)
	q.Unlock(outer)
	q.RequireStored(inner, 1)
	require.False(t, stranger.IsOver())
	testkit.Eventually(t, testkit.Patience, func() bool { return q.RestsInRedis(q.Clients[0]) }, "the next one has its place")
	q.Unlock(inner)
	next := stranger.Granted()
	require.EqualValues(t, 2, locktest.LeaseOf(next).State().Passes)
	q.Unlock(next)
	q.RequireNothingLeft()
	q.RequireNoLines()
	q.RequireForgotten()
}

// Goroutines of one owner take turns: the lock is transferred to the owner that has it.
func TestTransferToTheSameOwner(t *testing.T) {
	t.Parallel()
	q := locktest.NewTransferBench(t)
	c := q.Clients[0]
	h := q.Take(c, relock.WithOwner("one"))
	w := q.Sits(t.Context(), 0)
	o := locktest.Engine(c).Enter(locktest.LeaseOf(h).OwnerKey())
	defer locktest.Engine(c).Exit(o)
	acquire.ActAs(locktest.Engine(c).Queue.State().Lines[q.Key].Waiters[0], o, locktest.LeaseOf(h).OwnerKey().ID) // as if it had sat before its owner was granted the lock
	locktest.Fresh(h)
	q.Unlock(h)
	next := w.Granted()
	require.EqualValues(t, 1, locktest.LeaseOf(next).State().Passes)
	q.RequireStored(next, 1)
	q.Unlock(next)
	q.RequireNothingLeft()
}

// Calls for a plain lock and for a reentrant one of the same name do not sit in one line: Redis tells which is mistaken.
func TestKindsDoNotSitTogether(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"RedisLock", "ReentrantLock"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			q := locktest.NewQueueBench(t, locktest.QueueMode{Kind: kind, Fair: false}, 1)
			h := q.Take(q.Clients[0])
			w := q.Sits(t.Context(), 0)
			for _, other := range locktest.QueueModes() {
				if other.Kind != kind {
					require.ErrorIs(t, locktest.RequireAtOnce(t, other.Lock(q.Clients[0]).Lock), relock.ErrKeyConflict, other.Title())
				}
			}
			locktest.Fresh(h)
			q.Unlock(h)
			q.Unlock(w.Granted())
			q.RequireNothingLeft()
			q.RequireNoLines()
		})
	}
}

// A place in Redis takes the lock for the call that stands there, not for the one that has left it.
func TestPlaceServesAnotherOwner(t *testing.T) {
	t.Parallel()
	q := locktest.NewTransferBench(t)
	h := q.Take(q.Clients[1])
	ctx, cancel := context.WithCancel(t.Context())
	first, second := q.Sits(ctx, 0), q.Sits(t.Context(), 1)
	place := q.SnapshotQueue()
	cancel()
	require.ErrorIs(t, first.End(), context.Canceled)
	require.Equal(t, place, q.SnapshotQueue())
	q.Unlock(h)
	next := second.Granted()
	q.RequireStored(next, 1)
	require.True(t, strings.HasPrefix(place[0], locktest.HoldOf(next)+":"), "it had the place")
	q.Unlock(next)
	q.RequireNothingLeft()
	q.RequireNoLines()
}

// A place with a request in doubt goes to nobody: a late copy would take the lock in the name of the call before.
func TestPlaceInDoubtServesNobody(t *testing.T) {
	t.Parallel()
	q, proxy := locktest.NewTransferBenchBehind(t)
	proxy.On(faults.Script(script.Enqueue.SHA), 1, faults.HoldAndCut) // and sent again
	h := q.Take(q.Clients[1])
	ctx, cancel := context.WithCancel(t.Context())
	first, second := q.Sits(ctx, 0), q.Sits(t.Context(), 1)
	place := q.SnapshotQueue()
	cancel()
	require.ErrorIs(t, first.End(), context.Canceled)
	testkit.Eventually(t, testkit.Patience, func() bool {
		now := q.SnapshotQueue()
		return len(now) == 1 && now[0] != place[0]
	}, "a place of its own")
	q.Unlock(h)
	next := second.Granted()
	q.RequireStored(next, 1)
	proxy.Release()
	q.Unlock(next)
	testkit.Eventually(t, testkit.Patience, func() bool { return q.Server.Do(t, "EXISTS", q.Key) == int64(0) }, "free")
	q.RequireNothingLeft()
}

// Close ends a transfer in the middle.
func TestCloseDuringATransfer(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]faults.Action{"request": faults.DelayRequest(time.Second), "answer": faults.Delay(time.Second)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, proxy := locktest.NewTransferBenchBehind(t)
			c := locktest.Sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.Clients[1])
			h := q.Take(c)
			q.Clients[0] = c
			first, second := q.Sits(context.Background(), 0), q.Sits(context.Background(), 1)
			proxy.On(locktest.TransferOnly, 1, action)
			locktest.Fresh(h)
			unlocked := testkit.Async(t, func() error { return h.Unlock(context.Background()) })
			require.True(t, proxy.Await(locktest.TransferOnly, 1, testkit.Patience))
			require.NoError(t, c.Close())
			require.ErrorIs(t, first.End(), relock.ErrClosed)
			require.ErrorIs(t, second.End(), relock.ErrClosed)
			require.ErrorIs(t, testkit.ResultWithin(t, unlocked, testkit.Patience), relock.ErrUnconfirmed)
			require.Empty(t, locktest.Engine(c).Queue.State().Lines)
			require.Zero(t, locktest.Engine(c).State().Leases)
			require.Zero(t, locktest.Engine(c).State().Owners)
		})
	}
}

// The maximum hold of one that was transferred counts from the transfer.
func TestTransferAndMaxHold(t *testing.T) {
	t.Parallel()
	q := locktest.NewTransferBench(t)
	const longest = 2 * time.Second
	most := relock.WithMaxHold(longest)
	h := q.Take(q.Clients[0], most)
	w := q.Sits(t.Context(), 0, most)
	locktest.Fresh(h)
	asked := time.Now()
	q.Unlock(h)
	next := w.Granted()
	require.EqualValues(t, 1, locktest.LeaseOf(next).State().Passes)
	require.ErrorIs(t, testkit.EndedWithin(t, next.Context(), 5*time.Second), relock.ErrMaxHold)
	require.GreaterOrEqual(t, time.Since(asked), longest)
	require.ErrorIs(t, next.Unlock(t.Context()), relock.ErrMaxHold)
	q.RequireNothingLeft()
	q.RequireNoLines()
	q.RequireForgotten()
}

package relock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// The last Unlock gives the lock to the next call of the client by one request, in the order of their calls. The hold
// before is over, and cannot touch the next one, which has the whole lease.
func TestTransferred(t *testing.T) {
	t.Parallel()
	q, proxy := newTransferBenchBehind(t)
	h := q.take(q.clients[0])
	first, second := q.sits(t.Context(), 0), q.sits(t.Context(), 1)
	place := q.snapshotQueue()
	q.server.Do(t, "PEXPIRE", q.key, 5000)
	fresh(h)
	asked := time.Now()
	q.unlock(h)
	next := first.granted()
	require.False(t, second.isOver())
	require.EqualValues(t, 1, leaseOf(next).State().Passes)
	require.False(t, next.ValidUntil().Before(asked.Add(lockspec.DefaultLease-lease.Drift(lockspec.DefaultLease))), "the whole lease")
	require.Greater(t, pttl(t, q.server, q.clients[0], queueKey), lockspec.DefaultLease-10*time.Second)
	q.requireStored(next, 1)
	require.NotEqual(t, holdOf(h), holdOf(next))
	require.Equal(t, place, q.snapshotQueue(), "one place for all of them")
	for name, s := range map[string]*script.Script{"release": script.ReentrantRelease, "claim": script.Claim} {
		require.Zero(t, proxy.Count(faults.Script(s.SHA)), name)
	}
	require.Equal(t, 1, proxy.Count(transferOnly))

	require.ErrorIs(t, h.Err(), ErrNotHeld)
	require.ErrorIs(t, context.Cause(h.Context()), ErrNotHeld)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrNotHeld)
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), ErrNotHeld)
	require.NoError(t, next.Err())
	require.NoError(t, next.Context().Err())

	inner, err := q.lock(q.clients[0]).Acquire(next.Context())
	require.NoError(t, err)
	q.requireStored(next, 2)
	fresh(next)
	q.unlock(inner)
	require.False(t, second.isOver(), "a level is left")
	q.requireStored(next, 1)
	require.NoError(t, next.Extend(t.Context(), time.Hour))
	testkit.Eventually(t, testkit.Patience, func() bool { return q.restsInRedis(q.clients[0]) }, "the next one has its place")
	q.unlock(next)
	last := second.granted()
	require.EqualValues(t, 2, leaseOf(last).State().Passes)
	require.LessOrEqual(t, pttl(t, q.server, q.clients[0], queueKey), lockspec.DefaultLease, "what the one before asked for does not count")
	q.requireStored(last, 1)
	q.unlock(last)
	q.requireNothingLeft()
	q.requireNoLines()
	q.requireForgotten()
}

// A hold that was transferred is renewed, and lost when the key is.
func TestTransferredHoldIsWatched(t *testing.T) {
	t.Parallel()
	q := newTransferBench(t)
	lease := WithWatchdog(3 * time.Second)
	h := q.take(q.clients[0], lease)
	w := q.sits(t.Context(), 0, lease)
	fresh(h)
	q.unlock(h)
	next := w.granted()
	require.EqualValues(t, 1, leaseOf(next).State().Passes)
	time.Sleep(4 * time.Second)
	require.NoError(t, next.Err())
	q.server.Do(t, "DEL", q.key)
	require.ErrorIs(t, testkit.EndedWithin(t, next.Context(), 5*time.Second), ErrLockLost)
	require.ErrorIs(t, next.Unlock(t.Context()), ErrLockLost)
	q.requireForgotten()
}

// What a lock is not transferred for: the next call then gets it from Redis, by a hand-over.
func TestNotTransferred(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		holder, waiter []LockOption
		set            func(h Hold)
		transferred    bool // all the same: the lease begins anew
	}{
		"the time alone is over":      {set: func(h Hold) { grantedAt(h, time.Now().Add(-waitqueue.PassAlone)) }},
		"given on a thousand times":   {set: func(h Hold) { leaseOf(h).Set(func(s *lease.State) { s.Passes = waitqueue.PassesAlone }) }},
		"a minimum hold":              {holder: []LockOption{WithMinHold(10 * time.Millisecond)}, waiter: []LockOption{WithMinHold(10 * time.Millisecond)}},
		"another lease":               {waiter: []LockOption{WithWatchdog(20 * time.Second)}},
		"another label":               {waiter: []LockOption{WithLabel("other")}},
		"another maximum hold":        {waiter: []LockOption{WithMaxHold(time.Hour)}},
		"a request in doubt":          {set: func(h Hold) { leaseOf(h).Set(func(s *lease.State) { s.Doubt.Error = true }) }},
		"a level that keeps the key":  {set: func(h Hold) { leaseOf(h).Set(func(s *lease.State) { s.Keep = time.Now().Add(time.Second) }) }},
		"a fixed lease":               {holder: []LockOption{WithExpiry(20 * time.Second)}, waiter: []LockOption{WithExpiry(20 * time.Second)}, transferred: true},
		"less than half of the lease": {set: func(h Hold) { believeLess(h, lockspec.DefaultLease/2) }, transferred: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newTransferBench(t)
			h := q.take(q.clients[0], tt.holder...)
			w := q.sits(t.Context(), 0, tt.waiter...)
			if fresh(h); tt.set != nil {
				tt.set(h)
			}
			q.unlock(h)
			next := w.granted()
			require.Equal(t, tt.transferred, leaseOf(next).State().Passes == 1)
			q.requireStored(next, 1)
			q.unlock(next)
			testkit.Eventually(t, testkit.Patience, func() bool { return q.server.Do(t, "EXISTS", q.key) == int64(0) }, "free")
			q.requireNoLines()
			q.requireForgotten()
		})
	}
}

// When one of an owner's goroutines is given the lock, the others that sit go one level deeper, and keep no place.
func TestOwnersOfSeats(t *testing.T) {
	t.Parallel()
	q := newTransferBench(t)
	h := q.take(q.clients[0])
	both := as(t, "both")
	first, stranger, second := q.sits(both, 0), q.sits(t.Context(), 1), q.sits(both, 2)
	fresh(h)
	q.unlock(h)
	outer, inner := first.granted(), second.granted()
	require.Same(t, leaseOf(outer), leaseOf(inner))
	q.requireStored(outer, 2)
	require.False(t, stranger.isOver())
	testkit.Eventually(t, testkit.Patience, func() bool { return q.clients[0].waiting(q.key) == 1 }, "one sits")
	fresh(outer)
	q.unlock(outer)
	q.requireStored(inner, 1)
	require.False(t, stranger.isOver())
	testkit.Eventually(t, testkit.Patience, func() bool { return q.restsInRedis(q.clients[0]) }, "the next one has its place")
	q.unlock(inner)
	next := stranger.granted()
	require.EqualValues(t, 2, leaseOf(next).State().Passes)
	q.unlock(next)
	q.requireNothingLeft()
	q.requireNoLines()
	q.requireForgotten()
}

// Goroutines of one owner take turns: the lock is transferred to the owner that has it.
func TestTransferToTheSameOwner(t *testing.T) {
	t.Parallel()
	q := newTransferBench(t)
	c := q.clients[0]
	h := q.take(c)
	w := q.sits(t.Context(), 0)
	o := c.engine.Enter(leaseOf(h).OwnerKey())
	defer c.engine.Exit(o)
	acquire.ActAs(c.engine.Queue.State().Lines[q.key].Waiters[0], o, leaseOf(h).OwnerKey().ID) // as if it had sat before its owner was granted the lock
	fresh(h)
	q.unlock(h)
	next := w.granted()
	require.EqualValues(t, 1, leaseOf(next).State().Passes)
	q.requireStored(next, 1)
	q.unlock(next)
	q.requireNothingLeft()
}

// Calls for a plain lock and for a reentrant one of the same name do not sit in one line: Redis tells which is mistaken.
func TestKindsDoNotSitTogether(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"RedisLock", "ReentrantLock"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			q := newQueueBench(t, queueMode{kind, false}, 1)
			h := q.take(q.clients[0])
			w := q.sits(t.Context(), 0)
			for _, other := range queueModes() {
				if other.kind != kind {
					require.ErrorIs(t, requireAtOnce(t, other.lock(q.clients[0]).Lock), ErrKeyConflict, other.name())
				}
			}
			fresh(h)
			q.unlock(h)
			q.unlock(w.granted())
			q.requireNothingLeft()
			q.requireNoLines()
		})
	}
}

// A place in Redis takes the lock for the call that stands there, not for the one that has left it.
func TestPlaceServesAnotherOwner(t *testing.T) {
	t.Parallel()
	q := newTransferBench(t)
	h := q.take(q.clients[1])
	ctx, cancel := context.WithCancel(t.Context())
	first, second := q.sits(ctx, 0), q.sits(t.Context(), 1)
	place := q.snapshotQueue()
	cancel()
	require.ErrorIs(t, first.end(), context.Canceled)
	require.Equal(t, place, q.snapshotQueue())
	q.unlock(h)
	next := second.granted()
	q.requireStored(next, 1)
	require.True(t, strings.HasPrefix(place[0], holdOf(next)+":"), "it had the place")
	q.unlock(next)
	q.requireNothingLeft()
	q.requireNoLines()
}

// A place with a request in doubt goes to nobody: a late copy would take the lock in the name of the call before.
func TestPlaceInDoubtServesNobody(t *testing.T) {
	t.Parallel()
	q, proxy := newTransferBenchBehind(t)
	proxy.On(faults.Script(script.Enqueue.SHA), 1, faults.HoldAndCut) // and sent again
	h := q.take(q.clients[1])
	ctx, cancel := context.WithCancel(t.Context())
	first, second := q.sits(ctx, 0), q.sits(t.Context(), 1)
	place := q.snapshotQueue()
	cancel()
	require.ErrorIs(t, first.end(), context.Canceled)
	testkit.Eventually(t, testkit.Patience, func() bool {
		now := q.snapshotQueue()
		return len(now) == 1 && now[0] != place[0]
	}, "a place of its own")
	q.unlock(h)
	next := second.granted()
	q.requireStored(next, 1)
	proxy.Release()
	q.unlock(next)
	testkit.Eventually(t, testkit.Patience, func() bool { return q.server.Do(t, "EXISTS", q.key) == int64(0) }, "free")
	q.requireNothingLeft()
}

// Close ends a transfer in the middle.
func TestCloseDuringATransfer(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]faults.Action{"request": faults.DelayRequest(time.Second), "answer": faults.Delay(time.Second)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, proxy := newTransferBenchBehind(t)
			c := sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.clients[1])
			h := q.take(c)
			q.clients[0] = c
			first, second := q.sits(context.Background(), 0), q.sits(context.Background(), 1)
			proxy.On(transferOnly, 1, action)
			fresh(h)
			unlocked := testkit.Async(t, func() error { return h.Unlock(context.Background()) })
			require.True(t, proxy.Await(transferOnly, 1, testkit.Patience))
			require.NoError(t, c.Close())
			require.ErrorIs(t, first.end(), ErrClosed)
			require.ErrorIs(t, second.end(), ErrClosed)
			require.ErrorIs(t, testkit.ResultWithin(t, unlocked, testkit.Patience), ErrUnconfirmed)
			require.Empty(t, c.engine.Queue.State().Lines)
			require.Zero(t, c.engine.State().Leases)
			require.Zero(t, c.engine.State().Owners)
		})
	}
}

// The maximum hold of one that was transferred counts from the transfer.
func TestTransferAndMaxHold(t *testing.T) {
	t.Parallel()
	q := newTransferBench(t)
	const longest = 2 * time.Second
	most := WithMaxHold(longest)
	h := q.take(q.clients[0], most)
	w := q.sits(t.Context(), 0, most)
	fresh(h)
	asked := time.Now()
	q.unlock(h)
	next := w.granted()
	require.EqualValues(t, 1, leaseOf(next).State().Passes)
	require.ErrorIs(t, testkit.EndedWithin(t, next.Context(), 5*time.Second), ErrMaxHold)
	require.GreaterOrEqual(t, time.Since(asked), longest)
	require.ErrorIs(t, next.Unlock(t.Context()), ErrMaxHold)
	q.requireNothingLeft()
	q.requireNoLines()
	q.requireForgotten()
}

package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// An Unlock gives the lock to the next call of the client without asking Redis, in the order of their calls. The hold
// before is over, and cannot touch the next one.
func TestPassedOnInMemory(t *testing.T) {
	t.Parallel()
	q := newSeatBench(t)
	h := q.take(q.clients[0])
	first, second := q.sits(t.Context(), 0), q.sits(t.Context(), 1)
	value, zadds, sets := q.value(), calls(t, q.server, "zadd"), calls(t, q.server, "set")
	fresh(h)
	q.unlock(h)
	next := first.granted()
	require.False(t, second.isOver())
	require.NoError(t, next.Err())
	require.Greater(t, time.Until(next.ValidUntil()), lockspec.DefaultLease/2)
	require.ErrorIs(t, h.Err(), ErrNotHeld)
	require.ErrorIs(t, context.Cause(h.Context()), ErrNotHeld)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrNotHeld)
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), ErrNotHeld)
	require.NoError(t, next.Err())
	require.NoError(t, next.Context().Err())
	testkit.Eventually(t, testkit.Patience, func() bool { return q.restsInRedis(q.clients[0]) }, "the second has its place")
	fresh(next)
	q.unlock(next)
	last := second.granted()
	require.Equal(t, value, q.value())
	require.Equal(t, zadds, calls(t, q.server, "zadd"))
	require.Equal(t, sets, calls(t, q.server, "set"))
	require.NoError(t, last.Extend(t.Context(), 2*lockspec.DefaultLease))
	require.Greater(t, time.Until(last.ValidUntil()), lockspec.DefaultLease)
	q.unlock(last)
	q.requireNothingLeft()
	q.requireNoLines()
}

// A hold that was passed on is renewed, and lost when the key is.
func TestPassedOnHoldIsWatched(t *testing.T) {
	t.Parallel()
	q := newSeatBench(t)
	lease := WithWatchdog(3 * time.Second)
	h := q.take(q.clients[0], lease)
	w := q.sits(t.Context(), 0, lease)
	fresh(h)
	q.unlock(h)
	next := w.granted()
	require.Same(t, h.(hold).level.Lease(), next.(hold).level.Lease())
	time.Sleep(4 * time.Second)
	require.NoError(t, next.Err())
	q.server.Do(t, "DEL", q.key)
	require.ErrorIs(t, testkit.EndedWithin(t, next.Context(), 5*time.Second), ErrLockLost)
	require.ErrorIs(t, next.Unlock(t.Context()), ErrLockLost)
}

// What a lock is not passed on for: the next call then gets it from Redis.
func TestNotPassedOn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		holder, waiter []LockOption
		set            func(q *queueBench, h Hold)
	}{
		"the time alone is over": {set: func(_ *queueBench, h Hold) { grantedAt(h, time.Now().Add(-waitqueue.PassAlone)) }},
		"passed on a thousand times": {set: func(_ *queueBench, h Hold) {
			fresh(h)
			leaseOf(h).Set(func(s *lease.State) { s.Passes = waitqueue.PassesAlone })
		}},
		"a fixed lease":               {holder: []LockOption{WithExpiry(20 * time.Second)}, waiter: []LockOption{WithExpiry(20 * time.Second)}},
		"a minimum hold":              {holder: []LockOption{WithMinHold(10 * time.Millisecond)}, waiter: []LockOption{WithMinHold(10 * time.Millisecond)}},
		"another lease":               {waiter: []LockOption{WithWatchdog(20 * time.Second)}},
		"another label":               {waiter: []LockOption{WithLabel("other")}},
		"another maximum hold":        {waiter: []LockOption{WithMaxHold(time.Hour)}},
		"less than half of the lease": {set: func(_ *queueBench, h Hold) { fresh(h); believeLess(h, lockspec.DefaultLease/2) }},
		"refused by the server":       {set: func(_ *queueBench, h Hold) { fresh(h); h.(hold).level.Lease().Refuse(lockspec.DefaultLease) }},
		"a request in doubt":          {set: func(_ *queueBench, h Hold) { fresh(h); leaseOf(h).Set(func(s *lease.State) { s.Doubt.Error = true }) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newSeatBench(t)
			h := q.take(q.clients[0], tt.holder...)
			w := q.sits(t.Context(), 0, tt.waiter...)
			if fresh(h); tt.set != nil {
				tt.set(q, h)
			}
			value := q.value()
			q.unlock(h)
			next := w.granted()
			require.NotEqual(t, value, q.value())
			require.NotSame(t, h.(hold).level.Lease(), next.(hold).level.Lease())
			q.unlock(next)
			testkit.Eventually(t, testkit.Patience, func() bool { return q.server.Do(t, "EXISTS", q.key) == int64(0) }, "free")
			q.requireNoLines()
		})
	}
}

// While another process waits, a client passes its lock on for a millisecond; then it is the other's turn.
func TestOthersHaveTheirTurn(t *testing.T) {
	eachKind(t, false, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		h := q.take(q.clients[0])
		other := q.wait(t.Context(), q.clients[1])
		q.awaitQueued(1)
		first, second := q.sits(t.Context(), 0), q.sits(t.Context(), 1)
		time.Sleep(20 * time.Millisecond) // so that the other one is the next for certain
		fresh(h)
		q.unlock(h)
		next := first.granted() // within the millisecond
		testkit.Eventually(t, testkit.Patience, func() bool { return q.restsInRedis(q.clients[0]) }, "the second has its place")
		grantedAt(next, time.Now().Add(-waitqueue.PassBeside))
		q.unlock(next)
		theirs := other.granted()
		require.False(t, second.isOver())
		q.unlock(theirs)
		q.unlock(second.granted())
		q.requireNothingLeft()
		q.requireNoLines()
	})
}

// Calls that wait in memory are told why the first one cannot get on.
func TestSeatsAreToldTheTrouble(t *testing.T) {
	eachKind(t, false, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		h := q.take(q.clients[1])
		first := q.sits(t.Context(), 0)
		ctx, cancel := context.WithCancel(t.Context())
		second := q.sits(ctx, 1)
		q.server.Kill(t)
		testkit.Eventually(t, testkit.Patience, func() bool {
			c := q.clients[0]
			return c.engine.Queue.State().Lines[q.key].Trouble != nil
		}, "polls fail")
		cancel()
		err := second.end()
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrLockAcquiredByOthers)
		require.True(t, driver.IsNetwork(err))
		q.server.Boot(t)
		_ = h.Unlock(t.Context()) // what it held is gone
		q.unlock(first.granted())
	})
}

// A renewal that an earlier holder sent changes nothing for the next one, whenever it is executed.
func TestLateRequestsOfAnEarlierHolder(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"while the next one has it": false, "after its Unlock": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, proxy := newSeatBenchBehind(t, WithCommandTimeout(time.Second))
			h := q.take(q.clients[0])
			w := q.sits(t.Context(), 0)
			proxy.On(faults.Script(script.Renew.SHA), 1, faults.HoldOnly)
			require.Error(t, h.Extend(t.Context(), lockspec.DefaultLease))
			fresh(h)
			q.unlock(h)
			next := w.granted()
			if !after {
				value := q.value()
				require.Len(t, proxy.Release(), 1)
				require.Equal(t, value, q.value())
				require.NoError(t, next.Err())
			}
			q.unlock(next)
			require.Empty(t, q.value())
			if after {
				require.Len(t, proxy.Release(), 1)
				require.Empty(t, q.value())
			}
			q.requireNothingLeft()
		})
	}
}

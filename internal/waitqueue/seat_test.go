package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// An Unlock gives the lock to the next call of the client without asking Redis, in the order of their calls. The hold
// before is over, and cannot touch the next one.
func TestPassedOnInMemory(t *testing.T) {
	t.Parallel()
	q := locktest.NewSeatBench(t)
	h := q.Take(q.Clients[0])
	first, second := q.Sits(t.Context(), 0), q.Sits(t.Context(), 1)
	value, zadds, sets := q.Value(), locktest.Calls(t, q.Server, "zadd"), locktest.Calls(t, q.Server, "set")
	locktest.Fresh(h)
	q.Unlock(h)
	next := first.Granted()
	require.False(t, second.IsOver())
	require.NoError(t, next.Err())
	require.Greater(t, time.Until(next.ValidUntil()), lockspec.DefaultLease/2)
	require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
	require.ErrorIs(t, context.Cause(h.Context()), relock.ErrNotHeld)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrNotHeld)
	require.NoError(t, next.Err())
	require.NoError(t, next.Context().Err())
	testkit.Eventually(t, testkit.Patience, func() bool { return q.RestsInRedis(q.Clients[0]) }, "the second has its place")
	locktest.Fresh(next)
	q.Unlock(next)
	last := second.Granted()
	require.Equal(t, value, q.Value())
	require.Equal(t, zadds, locktest.Calls(t, q.Server, "zadd"))
	require.Equal(t, sets, locktest.Calls(t, q.Server, "set"))
	require.NoError(t, last.Extend(t.Context(), 2*lockspec.DefaultLease))
	require.Greater(t, time.Until(last.ValidUntil()), lockspec.DefaultLease)
	q.Unlock(last)
	q.RequireNothingLeft()
	q.RequireNoLines()
}

// A hold that was passed on is renewed, and lost when the key is.
func TestPassedOnHoldIsWatched(t *testing.T) {
	t.Parallel()
	q := locktest.NewSeatBench(t)
	lease := relock.WithWatchdog(3 * time.Second)
	h := q.Take(q.Clients[0], lease)
	w := q.Sits(t.Context(), 0, lease)
	locktest.Fresh(h)
	q.Unlock(h)
	next := w.Granted()
	require.Same(t, locktest.Level(h).Lease(), locktest.Level(next).Lease())
	time.Sleep(4 * time.Second)
	require.NoError(t, next.Err())
	q.Server.Do(t, "DEL", q.Key)
	require.ErrorIs(t, testkit.EndedWithin(t, next.Context(), 5*time.Second), relock.ErrLockLost)
	require.ErrorIs(t, next.Unlock(t.Context()), relock.ErrLockLost)
}

// What a lock is not passed on for: the next call then gets it from Redis.
func TestNotPassedOn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		holder, waiter []relock.LockOption
		set            func(q *locktest.QueueBench, h relock.Hold)
	}{
		"the time alone is over": {set: func(_ *locktest.QueueBench, h relock.Hold) {
			locktest.GrantedAt(h, time.Now().Add(-waitqueue.PassAlone))
		}},
		"passed on a thousand times": {set: func(_ *locktest.QueueBench, h relock.Hold) {
			locktest.Fresh(h)
			locktest.LeaseOf(h).Set(func(s *lease.State) { s.Passes = waitqueue.PassesAlone })
		}},
		"a fixed lease":        {holder: []relock.LockOption{relock.WithExpiry(20 * time.Second)}, waiter: []relock.LockOption{relock.WithExpiry(20 * time.Second)}},
		"a minimum hold":       {holder: []relock.LockOption{relock.WithMinHold(10 * time.Millisecond)}, waiter: []relock.LockOption{relock.WithMinHold(10 * time.Millisecond)}},
		"another lease":        {waiter: []relock.LockOption{relock.WithWatchdog(20 * time.Second)}},
		"another label":        {waiter: []relock.LockOption{relock.WithLabel("other")}},
		"another maximum hold": {waiter: []relock.LockOption{relock.WithMaxHold(time.Hour)}},
		"less than half of the lease": {set: func(_ *locktest.QueueBench, h relock.Hold) {
			locktest.Fresh(h)
			locktest.BelieveLess(h, lockspec.DefaultLease/2)
		}},
		"refused by the server": {set: func(_ *locktest.QueueBench, h relock.Hold) {
			locktest.Fresh(h)
			locktest.Level(h).Lease().Refuse(lockspec.DefaultLease)
		}},
		"a request in doubt": {set: func(_ *locktest.QueueBench, h relock.Hold) {
			locktest.Fresh(h)
			locktest.LeaseOf(h).Set(func(s *lease.State) { s.Doubt.Error = true })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := locktest.NewSeatBench(t)
			h := q.Take(q.Clients[0], tt.holder...)
			w := q.Sits(t.Context(), 0, tt.waiter...)
			if locktest.Fresh(h); tt.set != nil {
				tt.set(q, h)
			}
			value := q.Value()
			q.Unlock(h)
			next := w.Granted()
			require.NotEqual(t, value, q.Value())
			require.NotSame(t, locktest.Level(h).Lease(), locktest.Level(next).Lease())
			q.Unlock(next)
			testkit.Eventually(t, testkit.Patience, func() bool { return q.Server.Do(t, "EXISTS", q.Key) == int64(0) }, "free")
			q.RequireNoLines()
		})
	}
}

// While another process waits, a client passes its lock on for a millisecond; then it is the other's turn.
func TestOthersHaveTheirTurn(t *testing.T) {
	locktest.EachKind(t, false, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[0])
		other := q.Wait(t.Context(), q.Clients[1])
		q.AwaitQueued(1)
		first, second := q.Sits(t.Context(), 0), q.Sits(t.Context(), 1)
		time.Sleep(20 * time.Millisecond) // so that the other one is the next for certain
		locktest.Fresh(h)
		q.Unlock(h)
		next := first.Granted() // within the millisecond
		testkit.Eventually(t, testkit.Patience, func() bool { return q.RestsInRedis(q.Clients[0]) }, "the second has its place")
		locktest.GrantedAt(next, time.Now().Add(-waitqueue.PassBeside))
		q.Unlock(next)
		theirs := other.Granted()
		require.False(t, second.IsOver())
		q.Unlock(theirs)
		q.Unlock(second.Granted())
		q.RequireNothingLeft()
		q.RequireNoLines()
	})
}

// Calls that wait in memory are told why the first one cannot get on.
func TestSeatsAreToldTheTrouble(t *testing.T) {
	locktest.EachKind(t, false, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[1])
		first := q.Sits(t.Context(), 0)
		ctx, cancel := context.WithCancel(t.Context())
		second := q.Sits(ctx, 1)
		q.Server.Kill(t)
		testkit.Eventually(t, testkit.Patience, func() bool {
			c := q.Clients[0]
			return locktest.Engine(c).Queue.State().Lines[q.Key].Trouble != nil
		}, "polls fail")
		cancel()
		err := second.End()
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		require.True(t, driver.IsNetwork(err))
		q.Server.Boot(t)
		_ = h.Unlock(t.Context()) // what it held is gone
		q.Unlock(first.Granted())
	})
}

// A renewal that an earlier holder sent changes nothing for the next one, whenever it is executed.
func TestLateRequestsOfAnEarlierHolder(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"while the next one has it": false, "after its Unlock": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, proxy := locktest.NewSeatBenchBehind(t, relock.WithCommandTimeout(time.Second))
			h := q.Take(q.Clients[0])
			w := q.Sits(t.Context(), 0)
			proxy.On(faults.Script(script.Renew.SHA), 1, faults.HoldOnly)
			require.Error(t, h.Extend(t.Context(), lockspec.DefaultLease))
			locktest.Fresh(h)
			q.Unlock(h)
			next := w.Granted()
			if !after {
				value := q.Value()
				require.Len(t, proxy.Release(), 1)
				require.Equal(t, value, q.Value())
				require.NoError(t, next.Err())
			}
			q.Unlock(next)
			require.Empty(t, q.Value())
			if after {
				require.Len(t, proxy.Release(), 1)
				require.Empty(t, q.Value())
			}
			q.RequireNothingLeft()
		})
	}
}

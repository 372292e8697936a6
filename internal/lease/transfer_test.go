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
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// unlockFresh unlocks a hold that has all the time in the world to be handed
// off.
func unlockFresh(q *locktest.QueueBench, h relock.Hold) {
	q.Helper()
	locktest.NeverStale(h)
	q.Unlock(h)
}

// passes returns how often the lease of a hold was handed off.
func passes(h relock.Hold) int { return locktest.LeaseOf(h).State().Passes }

// requireForgotten checks that neither Redis nor the clients have anything of
// the lock.
func requireForgotten(q *locktest.QueueBench, polls ...time.Duration) {
	q.Helper()
	q.RequireNothingLeft(polls...)
	q.RequireNoWaiters()
	q.RequireForgotten()
}

// The last Unlock gives the lock to the next call of the client by one request,
// in the order of their calls. The hold before is over, and cannot touch the
// next one, which has the whole lease. That is renewed, and lost when the key
// is. Its maximum hold counts from the transfer.
func TestTransferred(t *testing.T) {
	t.Parallel()
	q, proxy := locktest.NewQueueBenchBehind(t, locktest.ReentrantUnfair)
	longest := relock.WithMaxHold(10 * time.Hour)
	h := q.Take(q.Clients[0], longest)
	first, second := q.WaitLocally(t.Context(), 0, longest), q.WaitLocally(t.Context(), 1, longest)
	entry := q.Entries()
	q.Server.Do(t, "PEXPIRE", q.Key, 5000)
	asked := time.Now()
	unlockFresh(q, h)
	next := first.Granted()
	require.False(t, second.HasEnded())
	require.Equal(t, 1, passes(next))
	require.False(t, locktest.Level(next).StopMaxHold().Before(asked.Add(10*time.Hour)))
	require.False(t, next.ValidUntil().Before(asked.Add(lockspec.DefaultLease-lease.Drift(lockspec.DefaultLease))), "the whole lease")
	require.Greater(t, locktest.PTTL(t, q.Server, q.Clients[0], locktest.QueueKey), lockspec.DefaultLease-10*time.Second)
	q.RequireStored(next, 1)
	require.NotEqual(t, locktest.HoldOf(h), locktest.HoldOf(next))
	require.Equal(t, entry, q.Entries(), "one entry for all of them")
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
	locktest.NeverStale(next)
	q.Unlock(inner)
	require.False(t, second.HasEnded(), "a level is left")
	q.RequireStored(next, 1)
	require.NoError(t, next.Extend(t.Context(), time.Hour))
	testkit.Eventually(t, testkit.Patience, func() bool { return q.IsQueued(q.Clients[0]) }, "the next one has its entry")
	q.Unlock(next)
	last := second.Granted()
	require.Equal(t, 2, passes(last))
	require.LessOrEqual(t, locktest.PTTL(t, q.Server, q.Clients[0], locktest.QueueKey), lockspec.DefaultLease, "what the one before asked for does not count")
	q.RequireStored(last, 1)

	until := last.ValidUntil()
	locktest.LeaseOf(last).RenewNow()
	testkit.Eventually(t, testkit.Patience, func() bool { return last.ValidUntil().After(until) }, "renewed")
	q.Server.Do(t, "DEL", q.Key)
	locktest.LeaseOf(last).RenewNow()
	require.ErrorIs(t, testkit.EndedWithin(t, last.Context(), 5*time.Second), relock.ErrLockLost)
	require.ErrorIs(t, last.Unlock(t.Context()), relock.ErrLockLost)
	requireForgotten(q)
}

// What a lock is not transferred for: the next call then gets it from Redis, by
// a remote hand-off.
func TestNotTransferred(t *testing.T) {
	t.Parallel()
	state := func(change func(*lease.State)) func(relock.Hold) {
		return func(h relock.Hold) { locktest.LeaseOf(h).Set(change) }
	}
	opts := func(opts ...relock.LockOption) []relock.LockOption { return opts }
	for name, tt := range map[string]struct {
		holder, waiter []relock.LockOption
		set            func(h relock.Hold)
		transferred    bool // all the same: the lease begins anew
	}{
		"only the time is over":       {set: func(h relock.Hold) { locktest.GrantedAt(h, time.Now().Add(-waitqueue.PassAlone)) }},
		"handed off a thousand times": {set: state(func(s *lease.State) { s.Passes = waitqueue.PassesAlone })},
		"a minimum hold":              {holder: opts(relock.WithMinHold(10 * time.Millisecond)), waiter: opts(relock.WithMinHold(10 * time.Millisecond))},
		"another lease":               {waiter: opts(relock.WithWatchdog(20 * time.Second))},
		"another label":               {waiter: opts(relock.WithLabel("other"))},
		"another maximum hold":        {waiter: opts(relock.WithMaxHold(time.Hour))},
		"an indeterminate request":    {set: state(func(s *lease.State) { s.Indeterminate.Error = true })},
		"a level that keeps the key":  {set: state(func(s *lease.State) { s.Keep = time.Now().Add(200 * time.Millisecond) })},
		"a fixed lease":               {holder: opts(relock.WithExpiry(20 * time.Second)), waiter: opts(relock.WithExpiry(20 * time.Second)), transferred: true},
		"less than half of the lease": {set: func(h relock.Hold) { locktest.ShortenValidity(h, lockspec.DefaultLease/2) }, transferred: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := locktest.NewQueueBench(t, locktest.ReentrantUnfair, 2)
			h := q.Take(q.Clients[0], tt.holder...)
			w := q.WaitLocally(t.Context(), 0, tt.waiter...)
			if locktest.NeverStale(h); tt.set != nil {
				tt.set(h)
			}
			q.Unlock(h)
			next := w.Granted()
			require.Equal(t, tt.transferred, passes(next) == 1)
			q.RequireStored(next, 1)
			q.Unlock(next)
			requireForgotten(q)
		})
	}
}

// When one of an owner's goroutines is given the lock, the others that wait go
// one level deeper, and keep no queue entry.
func TestWaitersOfOneOwner(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.ReentrantUnfair, 2)
	h := q.Take(q.Clients[0])
	both := locktest.As(t, "both")
	first, stranger, second := q.WaitLocally(both, 0), q.WaitLocally(t.Context(), 1), q.WaitLocally(both, 2)
	unlockFresh(q, h)
	outer, inner := first.Granted(), second.Granted()
	require.Same(t, locktest.LeaseOf(outer), locktest.LeaseOf(inner))
	q.RequireStored(outer, 2)
	require.False(t, stranger.HasEnded())
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.WaitingIn(q.Clients[0], q.Key) == 1 }, "one waits")
	unlockFresh(q, outer)
	q.RequireStored(inner, 1)
	require.False(t, stranger.HasEnded())
	testkit.Eventually(t, testkit.Patience, func() bool { return q.IsQueued(q.Clients[0]) }, "the next one has its entry")
	q.Unlock(inner)
	next := stranger.Granted()
	require.Equal(t, 2, passes(next))
	q.Unlock(next)
	requireForgotten(q)
}

// Goroutines of one owner take turns: the lock is transferred to the owner that
// has it.
func TestTransferToTheSameOwner(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.ReentrantUnfair, 2)
	h := q.Take(q.Clients[0])
	w := q.WaitLocally(t.Context(), 0)
	e, key := locktest.Engine(q.Clients[0]), locktest.LeaseOf(h).OwnerKey()
	o := e.Enter(key)
	defer e.Exit(o)
	acquire.ActAs(e.Queue.State().Lines[q.Key].Waiters[0], o, key.ID) // as if it had waited before its owner was granted the lock
	unlockFresh(q, h)
	next := w.Granted()
	require.Equal(t, 1, passes(next))
	q.RequireStored(next, 1)
	q.Unlock(next)
	q.RequireNothingLeft()
}

// Calls for a plain lock and for a reentrant one of the same name do not wait
// in one line: Redis reports the conflict.
func TestKindsDoNotWaitTogether(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"RedisLock", "ReentrantLock"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			q := locktest.NewQueueBench(t, locktest.QueueMode{Kind: kind, Fair: false}, 1)
			h := q.Take(q.Clients[0])
			w := q.WaitLocally(t.Context(), 0)
			for _, other := range locktest.QueueModes {
				if other.Kind != kind {
					require.ErrorIs(t, locktest.RequireAtOnce(t, other.Lock(q.Clients[0]).Lock), relock.ErrKeyConflict, other.Title())
				}
			}
			unlockFresh(q, h)
			q.Unlock(w.Granted())
			requireForgotten(q)
		})
	}
}

// A queue entry takes the lock for the call that has inherited it, not for the
// one that has left. An indeterminate entry is not inherited: a late copy would
// take the lock in the name of the call before.
func TestInheritedEntry(t *testing.T) {
	t.Parallel()
	for name, indeterminate := range map[string]bool{"resolved": false, "indeterminate": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, proxy := locktest.NewQueueBenchBehind(t, locktest.ReentrantUnfair)
			if indeterminate {
				proxy.On(faults.Script(script.Enqueue.SHA), 1, faults.HoldAndCut) // and sent again
			}
			h := q.Take(q.Clients[1])
			ctx, cancel := context.WithCancel(t.Context())
			first, second := q.WaitLocally(ctx, 0), q.WaitLocally(t.Context(), 1)
			entry := q.Entries()
			cancel()
			require.ErrorIs(t, first.End(), context.Canceled)
			if indeterminate {
				testkit.Eventually(t, testkit.Patience, func() bool {
					now := q.Entries()
					return len(now) == 1 && now[0] != entry[0]
				}, "an entry of its own")
			} else {
				require.Equal(t, entry, q.Entries())
			}
			q.Unlock(h)
			next := second.Granted()
			q.RequireStored(next, 1)
			require.Equal(t, !indeterminate, strings.HasPrefix(entry[0], locktest.HoldOf(next)+":"), "it had the entry")
			proxy.Release()
			q.Unlock(next)
			requireForgotten(q)
		})
	}
}

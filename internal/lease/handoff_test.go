package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

type (
	bench   = locktest.QueueBench
	mode    = locktest.QueueMode
	waiting = locktest.Waiting
)

// How long, and how often, a client may hand a lock off within the process:
// while it knows of no other that waits, and beside one.
const (
	passesAlone = 1000
	passAlone   = 10 * time.Millisecond
	passBeside  = time.Millisecond
)

// An Unlock gives the lock to the next local waiter without a request, in the
// order of the calls. The hold before is over, and cannot touch the next one.
func TestLocalHandOff(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.PlainUnfair, 2)
	h := q.Take(q.Clients[0])
	first, second := q.WaitLocally(t.Context(), 0), q.WaitLocally(t.Context(), 1)
	value, zadds, sets := q.Value(), locktest.Calls(t, q.Server, "zadd"), locktest.Calls(t, q.Server, "set")
	slept := second.Sleeps()
	next := q.PassTo(h, first)
	require.False(t, second.HasEnded())
	require.Greater(t, time.Until(next.ValidUntil()), lockspec.DefaultLease/2)
	require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
	require.ErrorIs(t, context.Cause(h.Context()), relock.ErrNotHeld)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrNotHeld)
	require.NoError(t, next.Err())
	require.NoError(t, next.Context().Err())
	awaitNext(second, slept)
	last := q.PassTo(next, second)
	require.Equal(t, value, q.Value())
	require.Equal(t, zadds, locktest.Calls(t, q.Server, "zadd"))
	require.Equal(t, sets, locktest.Calls(t, q.Server, "set"))
	require.NoError(t, last.Extend(t.Context(), 2*lockspec.DefaultLease))
	require.Greater(t, time.Until(last.ValidUntil()), lockspec.DefaultLease)
	q.Unlock(last)
	q.RequireIdle()
}

// A hold that was handed off is renewed, is lost when its key is, and ends with
// its client.
func TestHandedOffHold(t *testing.T) {
	locktest.EachCase(t, locktest.Unfair, map[string]func(*bench, relock.Hold) error{
		"is lost": func(q *bench, _ relock.Hold) error { q.Server.Do(q, "DEL", q.Key); return relock.ErrLockLost },
		"its client ends": func(q *bench, _ relock.Hold) error {
			require.NoError(q, q.Clients[0].Close())
			return relock.ErrClosed
		},
	}, func(t testing.TB, m mode, end func(*bench, relock.Hold) error) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[0])
		next := q.PassTo(h, q.WaitLocally(t.Context(), 0))
		require.Equal(t, 1, passes(next))
		locktest.Renew(t, next, testkit.Patience)
		require.NoError(t, next.Err())
		why := end(q, next)
		locktest.RenewNow(next) // which finds the loss
		require.ErrorIs(t, testkit.EndedWithin(t, next.Context(), testkit.Patience), why)
		require.ErrorIs(t, next.Err(), why)
	})
}

// The next local waiter gets these locks from Redis. A transfer begins a new
// lease, so it hands off some of them.
func TestNoLocalHandOff(t *testing.T) {
	type handed struct {
		holder, waiter []relock.LockOption
		set            func(h relock.Hold)
		transferred    bool
		nested         bool // only a reentrant lock can be so
	}
	state := func(change func(*lease.State)) func(relock.Hold) {
		return func(h relock.Hold) { leaseOf(h).Set(change) }
	}
	over := func(h relock.Hold) { grantedAt(h, time.Now().Add(-passAlone)) }
	opts := func(opts ...relock.LockOption) []relock.LockOption { return opts }
	fixed, keeps := opts(relock.WithExpiry(20*time.Second)), opts(relock.WithMinHold(10*time.Millisecond))
	locktest.EachCase(t, locktest.Unfair, map[string]handed{
		"the time without remote waiters is over": {set: over},
		"handed off a thousand times":             {set: state(func(s *lease.State) { s.Passes = passesAlone })},
		"less than half of the lease": {
			set: state(func(s *lease.State) { s.ValidUntil = time.Now().Add(lockspec.DefaultLease / 2) }), transferred: true,
		},
		"an indeterminate request": {set: state(func(s *lease.State) { s.Indeterminate.Error = true })},
		"refused by the server": {
			set: func(h relock.Hold) { leaseOf(h).EndBy(time.Now().Add(lockspec.DefaultLease)) }, transferred: true,
		},
		"a level that keeps the key": {
			set: state(func(s *lease.State) { s.Keep = time.Now().Add(2 * time.Second) }), nested: true,
		},
		"a fixed lease":        {holder: fixed, waiter: fixed, transferred: true},
		"a minimum hold":       {holder: keeps, waiter: keeps},
		"another lease":        {waiter: opts(relock.WithWatchdog(20 * time.Second))},
		"another label":        {waiter: opts(relock.WithLabel("other"))},
		"another maximum hold": {waiter: opts(relock.WithMaxHold(time.Hour))},
	}, func(t testing.TB, m mode, c handed) {
		if c.nested && m == locktest.PlainUnfair {
			return
		}
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[0], c.holder...)
		w := q.WaitLocally(t.Context(), 0, c.waiter...)
		if neverStale(h); c.set != nil {
			c.set(h)
		}
		before := q.Server.Content(t, q.Key)
		q.Unlock(h)
		next := w.Granted()
		require.NotEqual(t, before, q.Server.Content(t, q.Key))
		require.NotSame(t, leaseOf(h), leaseOf(next))
		require.Equal(t, c.transferred && m == locktest.ReentrantUnfair, passes(next) == 1)
		if m == locktest.ReentrantUnfair {
			requireStored(q, next, 1)
		}
		q.Unlock(next)
		q.RequireIdle()
	})
}

// The lease of a fair call goes to the queue, even if its last level is unfair:
// a fair waiter of another process may be first there.
func TestFairLeaseIsNotPassedOn(t *testing.T) {
	locktest.EachMode(t, locktest.Unfair, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[0], relock.WithFair())
		within := q.Lock(q.Clients[0]).Acquire
		if m == locktest.PlainUnfair { // only calls of a Locker nest
			l := locktest.NewLocker(t, q.Clients[0])
			within = func(ctx context.Context) (relock.Hold, error) { return l.Lock(ctx, locktest.QueueKey) }
		}
		level, err := within(h.Context())
		require.NoError(t, err)
		w := q.WaitLocally(t.Context(), 0)
		neverStale(h)
		q.Unlock(h)
		q.Unlock(level)
		next := w.Granted()
		require.NotSame(t, leaseOf(level), leaseOf(next))
		require.Zero(t, passes(next))
		q.Unlock(next)
		q.RequireIdle()
	})
}

// While another process waits, a client hands its lock off locally for a
// millisecond. Then it is the other's turn. The last answer has the number that
// wait in the queue.
func TestRemoteWaiterHasItsTurn(t *testing.T) {
	locktest.EachMode(t, locktest.Unfair, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		locktest.Engine(q.Clients[0]).Limits.HandOffs.Alone = time.Hour
		h := q.Take(q.Clients[0])
		other := q.Wait(t.Context(), q.Clients[1])
		q.AwaitQueued(1)
		q.AwaitSubscribed(q.Clients[1]) // its first poll is over, which would put the entry back
		first, second := q.WaitLocally(t.Context(), 0), q.WaitLocally(t.Context(), 1)
		time.Sleep(20 * time.Millisecond) // so that the other one is certainly next
		slept := second.Sleeps()
		next := q.PassTo(h, first) // within the millisecond
		awaitNext(second, slept)
		grantedAt(next, time.Now().Add(-passBeside))
		q.Unlock(next)
		remote := other.Granted()
		require.False(t, second.HasEnded())
		q.Unlock(remote)
		h = second.Granted()
		last := q.WaitLocally(t.Context(), 0)
		grantedAt(h, time.Now().Add(-time.Minute))
		q.Unlock(h)
		require.Equal(t, 1, passes(last.Granted()), "no other process waits any more")
		q.Unlock(last.Hold)
		q.RequireIdle()
	})
}

// Local waiters report why the first of them cannot get on. They never say that
// others hold a lock of which Redis has said nothing.
func TestLocalWaitersReportTheTrouble(t *testing.T) {
	locktest.EachMode(t, locktest.Unfair, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[1])
		first := q.WaitLocally(t.Context(), 0)
		ctx, cancel := context.WithCancel(t.Context())
		second := q.WaitLocally(ctx, 1)
		q.Server.Kill(t)
		line := locktest.Engine(q.Clients[0]).Queue.EnterUsed(q.Key)
		testkit.Eventually(t, testkit.Patience, func() bool { return line.Answer().Err != nil }, "polls fail")
		line.Exit()
		cancel()
		err := second.End()
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		require.True(t, driver.IsNetwork(err))
		q.Server.Boot(t)
		_ = h.Unlock(t.Context()) // what it held is gone
		q.Unlock(first.Granted())

		q.Server.Pause(t)
		defer q.Server.Resume(t)
		var all []*waiting
		for range 20 {
			all = append(all, q.Wait(t.Context(), q.Clients[0], relock.WithBlockTimeout(200*time.Millisecond)))
		}
		for _, w := range all {
			require.NotErrorIs(t, w.End(), relock.ErrLockAcquiredByOthers)
			require.True(t, relock.IsRetryableErr(w.Err), w.Err)
		}
	})
}

// A renewal that an earlier holder sent changes nothing for the next one,
// whenever it is executed.
func TestLateRequestsOfAnEarlierHolder(t *testing.T) {
	locktest.EachCase(t, []mode{locktest.PlainUnfair}, map[string]bool{
		"while the next one has it": false, "after its Unlock": true,
	}, func(t testing.TB, _ mode, after bool) {
		q, proxy := locktest.NewQueueBenchBehind(t, locktest.PlainUnfair, relock.WithCommandTimeout(3*time.Second))
		h := q.Take(q.Clients[0])
		w := q.WaitLocally(t.Context(), 0)
		proxy.On(faults.Script(script.Renew.SHA), 1, faults.HoldOnly)
		require.Error(t, h.Extend(t.Context(), lockspec.DefaultLease))
		next := q.PassTo(h, w)
		if after {
			q.Unlock(next)
		}
		value := q.Value()
		require.Len(t, proxy.Release(), 1)
		require.Equal(t, value, q.Value())
		if !after {
			require.NoError(t, next.Err())
			q.Unlock(next)
		}
		require.Empty(t, q.Value())
		q.RequireNothingLeft()
	})
}

// An Extend that was under way during the hand-off says that its hold is over.
func TestExtendDuringALocalHandOff(t *testing.T) {
	t.Parallel()
	q, proxy := locktest.NewQueueBenchBehind(t, locktest.PlainUnfair)
	h := q.Take(q.Clients[0])
	w := q.WaitLocally(t.Context(), 0)
	renewal := faults.Script(script.Renew.SHA)
	answered := make(chan struct{})
	proxy.On(renewal, 1, faults.DelayUntil(answered))
	extended := testkit.Async(t, func() error { return h.Extend(t.Context(), time.Hour) })
	require.True(t, proxy.Await(renewal, 1, testkit.Patience))
	next := q.PassTo(h, w)
	close(answered)
	require.ErrorIs(t, testkit.ResultWithin(t, extended, testkit.Patience), relock.ErrNotHeld)
	require.NoError(t, next.Err())
	q.UnlockLast(next)
}

// An Extend after the hand-off changes nothing. The key stays for no longer
// than the next holder asks for, whatever the one before has asked for.
func TestExtendAndLocalHandOff(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.PlainUnfair, 2)
	h := q.Take(q.Clients[0])
	next := q.PassTo(h, q.WaitLocally(t.Context(), 0))
	require.Same(t, leaseOf(h), leaseOf(next))
	require.Equal(t, relock.ErrNotHeld, locktest.Level(h).Lengthen(time.Hour), "it has looked before")
	require.Equal(t, lockspec.DefaultLease, leaseOf(next).State().Length)
	require.NoError(t, next.Extend(t.Context(), time.Hour))
	last := q.PassTo(next, q.WaitLocally(t.Context(), 0))
	require.LessOrEqual(t, locktest.PTTL(t, q.Server, q.Clients[0], locktest.QueueKey), lockspec.DefaultLease)
	q.UnlockLast(last)
}

// Many callers of few objects of two clients, whose contexts are cancelled at
// any time: no two hold the lock together, and nothing is left behind.
func TestStormOfLocalWaiters(t *testing.T) {
	rounds := 20
	if locktest.FullLength() {
		rounds = 60
	}
	locktest.EachMode(t, locktest.Unfair, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		objects := []locktest.AnyLock{q.Lock(q.Clients[0]), q.Lock(q.Clients[1])}
		var inside, passed int // guarded by the lock
		var results []<-chan error
		for g := range 24 {
			lock, nests := objects[g%2], m == locktest.ReentrantUnfair
			switch {
			case g%3 == 0:
				lock = q.Lock(q.Clients[g%2], relock.WithLabel(fmt.Sprint(g%2)))
			case g > 20 && m == locktest.ReentrantUnfair: // several goroutines of one owner
				lock, nests = locktest.Owned("one", q.Lock(q.Clients[0])), false
			}
			once := func(ctx context.Context, n int) error {
				return lock.Do(ctx, func(ctx context.Context) error {
					h, ok := relock.HoldFromContext(ctx, locktest.QueueKey)
					if !strings.HasSuffix(locktest.Level(h).Owner(), ":one") {
						if inside++; inside != 1 || !ok {
							t.Error("two hold it")
						}
						passed = max(passed, passes(h))
						inside--
					}
					if n%7 == 0 {
						time.Sleep(100 * time.Microsecond)
					}
					if nests && n%5 == 0 {
						return lock.Do(ctx, locktest.Nothing)
					}
					return nil
				})
			}
			results = append(results, testkit.Async(t, func() error {
				for n := range rounds {
					ctx, cancel := context.WithCancel(t.Context())
					if n%3 == 0 {
						time.AfterFunc(rand.N(3*time.Millisecond), cancel)
					}
					err := once(ctx, n)
					cancel()
					if err != nil && (n%3 != 0 || !errors.Is(err, context.Canceled)) {
						return err
					}
				}
				return nil
			}))
		}
		testkit.AllWithin(t, results, testkit.Patience)
		require.Positive(t, passed)
		q.RequireIdle()
	})
}

// A waiter that is handed the lock while it is woken leaves the wake-up to its
// entry, which is another waiter's then.
func TestLocalHandOffDuringAWakeUp(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.PlainUnfair, 2)
	h := q.Take(q.Clients[0])
	w := q.WaitLocally(t.Context(), 0)
	c, l := q.Clients[0], locktest.Level(h).Lease()
	next, left := locktest.Engine(c).Local.Next(q.Key, 0, 0, localwait.DefaultBudget(), locktest.Level(h).Settings())
	require.Nil(t, left)
	entry := locktest.Engine(c).Queue.TakeRetained(q.Key)
	entry.Nudge() // the waiter wakes, finds that it has the lock, and waits for that
	testkit.Eventually(t, testkit.Patience, func() bool { return len(entry.Wake) == 0 }, "awake")
	require.Same(t, l.PassTo(next), locktest.Level(w.Granted()))
	require.Len(t, entry.Wake, 1)
	l.Lose(relock.ErrLockLost) // the first hold was not unlocked
	entry.LeaveWith(relock.ErrLockLost)
	q.RequireIdle()
}

// A wake-up whose call was cancelled before using it goes to the waiter that
// has its entry next: the lock is reserved for that.
func TestWakeUpOfACancelledCall(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.ReentrantUnfair, 2)
	const seldom = time.Minute // polls that come too late for testkit.Patience
	polledSeldom := []relock.LockOption{relock.WithPollInterval(seldom), relock.WithWatchdog(4 * seldom)}
	h, c := q.Take(q.Clients[1]), q.Clients[0]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := q.WaitLocally(relock.ContextWithOwner(ctx, "slow"), 0, polledSeldom...)
	second := q.WaitLocally(t.Context(), 1, polledSeldom...)
	resume, slept := locktest.Engine(c).Block(ownerKey(q, "slow")), first.Sleeps() // as another call of its owner does
	q.Unlock(h)
	testkit.Eventually(t, testkit.Patience, func() bool { return first.Sleeps() > slept }, "is woken")
	cancel()
	require.ErrorIs(t, first.End(), context.Canceled)
	resume()
	q.UnlockLast(second.Granted(), seldom)
}

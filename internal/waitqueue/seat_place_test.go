package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// A first seat that gives up leaves its place in Redis to the next one; the last one takes it out.
func TestPlaceGoesToTheNextSeat(t *testing.T) {
	locktest.EachKind(t, false, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[1])
		ctx, cancel := context.WithCancel(t.Context())
		first, second, third := q.Sits(ctx, 0), q.Sits(t.Context(), 1), q.Sits(t.Context(), 2)
		place := q.SnapshotQueue()
		cancel()
		require.ErrorIs(t, first.End(), context.Canceled)
		require.Equal(t, place, q.SnapshotQueue())
		q.Unlock(h)
		next := second.Granted()
		locktest.Fresh(next)
		q.Unlock(next)
		q.Unlock(third.Granted())
		q.RequireNothingLeft()
		q.RequireNoLines()

		h = q.Take(q.Clients[1])
		ctx, cancel = context.WithCancel(t.Context())
		first = q.Sits(ctx, 0)
		cancel()
		require.ErrorIs(t, first.End(), context.Canceled)
		q.AwaitQueued(0)
		q.Unlock(h)
		q.RequireNothingLeft()
		q.RequireNoLines()
	})
}

// The place of a seat that was given the lock while nobody else sat is spared: who sits next takes it. The end of the
// lease gives it up, and what is handed over to it meanwhile goes on to others at once.
func TestSparedPlace(t *testing.T) {
	locktest.EachKind(t, false, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[0])
		w := q.Sits(t.Context(), 0)
		place := q.SnapshotQueue()
		for range 5 {
			locktest.Fresh(h)
			q.Unlock(h)
			h = w.Granted()
			require.Equal(t, place, q.SnapshotQueue())
			w = q.Sits(t.Context(), 0)
			require.Equal(t, place, q.SnapshotQueue())
		}
		q.Unlock(h)
		q.Unlock(w.Granted())
		q.RequireNothingLeft()
		q.RequireNoLines()
	})
}

func TestSparedPlaceIsGivenUp(t *testing.T) {
	for name, end := range map[string]func(q *locktest.QueueBench, h relock.Hold){
		"unlocked": func(q *locktest.QueueBench, h relock.Hold) { q.Unlock(h) },
		"lost": func(q *locktest.QueueBench, h relock.Hold) {
			locktest.Level(h).Lease().Lose(relock.ErrLockLost)
			require.ErrorIs(q, h.Unlock(q.Context()), relock.ErrLockLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			locktest.EachKind(t, false, func(t testing.TB, m locktest.QueueMode) {
				q := locktest.NewQueueBench(t, m, 2)
				h := q.Take(q.Clients[0])
				w := q.Sits(t.Context(), 0)
				locktest.Fresh(h)
				q.Unlock(h)
				h = w.Granted()
				end(q, h)
				q.RequireNothingLeft()
				q.RequireNoLines()
			})
		})
	}
}

func TestSparedPlaceThatIsHandedOverTo(t *testing.T) {
	locktest.EachKind(t, false, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[0])
		w := q.Sits(t.Context(), 0)
		other := q.Wait(t.Context(), q.Clients[1])
		q.AwaitQueued(2)
		q.AwaitHeard(q.Clients[0])        // nobody polls for a place that is spared
		time.Sleep(20 * time.Millisecond) // it is reserved for the place then
		locktest.Fresh(h)
		q.Unlock(h)
		h = w.Granted()
		start := time.Now()
		p := locktest.LeaseOf(h).Protocol().Release(lease.Levels{}, 9, 0)
		require.Equal(t, int64(1), q.Server.Do(t, "EVAL", append([]any{p.Script.Source, 3, q.Key, q.Key + ":q", q.Key + ":b"}, p.Args...)...))
		theirs := other.Granted()
		require.Less(t, time.Since(start), time.Second)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
		q.Unlock(theirs)
		q.RequireNothingLeft()
		q.RequireNoLines()
	})
}

// A place that is spared is of no use to a call with other options: what it asked Redis for is not what that call wants.
func TestSparedPlaceForOtherOptions(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]relock.LockOption{
		"shorter, fixed": relock.WithExpiry(5 * time.Second), "longer, fixed": relock.WithExpiry(2 * time.Minute),
		"label": relock.WithLabel("other"), "maximum hold": relock.WithMaxHold(time.Hour),
	} {
		for _, kind := range []string{"RedisLock", "ReentrantLock"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				q := locktest.NewQueueBench(t, locktest.QueueMode{Kind: kind, Fair: false}, 2)
				h := q.Take(q.Clients[0])
				w := q.Sits(t.Context(), 0)
				place := q.SnapshotQueue()
				locktest.Fresh(h)
				q.Unlock(h)
				h = w.Granted()
				w = q.Sits(t.Context(), 0, opt)
				testkit.Eventually(t, testkit.Patience, func() bool {
					now := q.SnapshotQueue()
					return len(now) == 1 && now[0] != place[0]
				}, "a place of its own")
				q.Unlock(h)
				next := w.Granted()
				left := locktest.Pttl(t, q.Server, q.Clients[0], locktest.QueueKey)
				require.LessOrEqual(t, time.Until(next.ValidUntil()), left)
				q.Unlock(next)
				q.RequireNothingLeft()
				q.RequireNoLines()
			})
		}
	}
}

// A place that was spared for a while may have been taken for gone: who takes it makes sure at once.
func TestSparedPlaceThatIsGone(t *testing.T) {
	locktest.EachKind(t, false, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[0])
		w := q.Sits(t.Context(), 0)
		locktest.Fresh(h)
		q.Unlock(h)
		h = w.Granted()
		time.Sleep(lockspec.DefaultPollInterval)
		q.Server.Do(t, "DEL", q.Key+":q", q.Key+":b")
		w = q.Sits(t.Context(), 0)
		testkit.Eventually(t, 500*time.Millisecond, func() bool { return q.InQueue() == 1 }, "back in the queue")
		next, _ := q.HandOver(h, w)
		require.EqualValues(t, 2, locktest.LeaseOf(next).State().Passes, "given on by the place that it took")
		q.Unlock(next)
		q.RequireNothingLeft()
	})
}

// While something of the first seat is under way, the lock goes to the second one. The first is next.
func TestPassedOverTheFirstSeat(t *testing.T) {
	t.Parallel()
	q, proxy := locktest.NewSeatBenchBehind(t)
	h := q.Take(q.Clients[0])
	locktest.Fresh(h)
	proxy.On(faults.Script(script.Enqueue.SHA), 1, faults.Delay(500*time.Millisecond))
	first := q.Wait(t.Context(), q.Clients[0])
	require.True(t, proxy.Await(faults.Script(script.Enqueue.SHA), 1, testkit.Patience))
	second := q.Wait(t.Context(), q.Clients[0])
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.WaitingIn(q.Clients[0], q.Key) == 2 }, "both sit")
	value := q.Value()
	q.Unlock(h)
	next := second.Granted()
	require.False(t, first.IsOver())
	require.Equal(t, value, q.Value())
	q.Unlock(next)
	q.Unlock(first.Granted())
	q.RequireNothingLeft()
	q.RequireNoLines()
}

// A first seat that was woken is not passed on to: Redis may have given the lock away, to its place.
func TestPlaceThatWasWoken(t *testing.T) {
	t.Parallel()
	q, proxy := locktest.NewSeatBenchBehind(t)
	h := q.Take(q.Clients[0])
	w := q.Sits(t.Context(), 0)
	proxy.On(faults.Script(script.Claim.SHA), 1, faults.DelayRequest(300*time.Millisecond))
	locktest.Fresh(h)
	value := q.Value()
	locktest.Engine(q.Clients[0]).Queue.Notify(q.SnapshotQueue()[0], q.Key)
	require.False(t, q.RestsInRedis(q.Clients[0]))
	q.Unlock(h)
	next := w.Granted()
	require.NotEqual(t, value, q.Value())
	q.Unlock(next)
	q.RequireNothingLeft()
}

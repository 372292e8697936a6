package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// A first seat that gives up leaves its place in Redis to the next one; the last one takes it out.
func TestPlaceGoesToTheNextSeat(t *testing.T) {
	eachKind(t, false, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		h := q.take(q.clients[1])
		ctx, cancel := context.WithCancel(t.Context())
		first, second, third := q.sits(ctx, 0), q.sits(t.Context(), 1), q.sits(t.Context(), 2)
		place := q.snapshotQueue()
		cancel()
		require.ErrorIs(t, first.end(), context.Canceled)
		require.Equal(t, place, q.snapshotQueue())
		q.unlock(h)
		next := second.granted()
		fresh(next)
		q.unlock(next)
		q.unlock(third.granted())
		q.requireNothingLeft()
		q.requireNoLines()

		h = q.take(q.clients[1])
		ctx, cancel = context.WithCancel(t.Context())
		first = q.sits(ctx, 0)
		cancel()
		require.ErrorIs(t, first.end(), context.Canceled)
		q.awaitQueued(0)
		q.unlock(h)
		q.requireNothingLeft()
		q.requireNoLines()
	})
}

// The place of a seat that was given the lock while nobody else sat is spared: who sits next takes it. The end of the
// lease gives it up, and what is handed over to it meanwhile goes on to others at once.
func TestSparedPlace(t *testing.T) {
	eachKind(t, false, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		h := q.take(q.clients[0])
		w := q.sits(t.Context(), 0)
		place := q.snapshotQueue()
		for range 5 {
			fresh(h)
			q.unlock(h)
			h = w.granted()
			require.Equal(t, place, q.snapshotQueue())
			w = q.sits(t.Context(), 0)
			require.Equal(t, place, q.snapshotQueue())
		}
		q.unlock(h)
		q.unlock(w.granted())
		q.requireNothingLeft()
		q.requireNoLines()
	})
}

func TestSparedPlaceIsGivenUp(t *testing.T) {
	for name, end := range map[string]func(q *queueBench, h Hold){
		"unlocked": func(q *queueBench, h Hold) { q.unlock(h) },
		"lost": func(q *queueBench, h Hold) {
			h.(hold).level.Lease().Lose(ErrLockLost)
			require.ErrorIs(q, h.Unlock(q.Context()), ErrLockLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, false, func(t testing.TB, m queueMode) {
				q := newQueueBench(t, m, 2)
				h := q.take(q.clients[0])
				w := q.sits(t.Context(), 0)
				fresh(h)
				q.unlock(h)
				h = w.granted()
				end(q, h)
				q.requireNothingLeft()
				q.requireNoLines()
			})
		})
	}
}

func TestSparedPlaceThatIsHandedOverTo(t *testing.T) {
	eachKind(t, false, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		h := q.take(q.clients[0])
		w := q.sits(t.Context(), 0)
		other := q.wait(t.Context(), q.clients[1])
		q.awaitQueued(2)
		q.awaitHeard(q.clients[0])        // nobody polls for a place that is spared
		time.Sleep(20 * time.Millisecond) // it is reserved for the place then
		fresh(h)
		q.unlock(h)
		h = w.granted()
		start := time.Now()
		p := leaseOf(h).Protocol().Release(lease.Levels{}, 9, 0)
		require.Equal(t, int64(1), q.server.Do(t, "EVAL", append([]any{p.Script.Source, 3, q.key, q.key + ":q", q.key + ":b"}, p.Args...)...))
		theirs := other.granted()
		require.Less(t, time.Since(start), time.Second)
		require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
		q.unlock(theirs)
		q.requireNothingLeft()
		q.requireNoLines()
	})
}

// A place that is spared is of no use to a call with other options: what it asked Redis for is not what that call wants.
func TestSparedPlaceForOtherOptions(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]LockOption{
		"shorter, fixed": WithExpiry(5 * time.Second), "longer, fixed": WithExpiry(2 * time.Minute),
		"label": WithLabel("other"), "maximum hold": WithMaxHold(time.Hour),
	} {
		for _, kind := range []string{"RedisLock", "ReentrantLock"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				q := newQueueBench(t, queueMode{kind, false}, 2)
				h := q.take(q.clients[0])
				w := q.sits(t.Context(), 0)
				place := q.snapshotQueue()
				fresh(h)
				q.unlock(h)
				h = w.granted()
				w = q.sits(t.Context(), 0, opt)
				testkit.Eventually(t, testkit.Patience, func() bool {
					now := q.snapshotQueue()
					return len(now) == 1 && now[0] != place[0]
				}, "a place of its own")
				q.unlock(h)
				next := w.granted()
				left := pttl(t, q.server, q.clients[0], queueKey)
				require.LessOrEqual(t, time.Until(next.ValidUntil()), left)
				q.unlock(next)
				q.requireNothingLeft()
				q.requireNoLines()
			})
		}
	}
}

// A place that was spared for a while may have been taken for gone: who takes it makes sure at once.
func TestSparedPlaceThatIsGone(t *testing.T) {
	eachKind(t, false, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		h := q.take(q.clients[0])
		w := q.sits(t.Context(), 0)
		fresh(h)
		q.unlock(h)
		h = w.granted()
		time.Sleep(lockspec.DefaultPollInterval)
		q.server.Do(t, "DEL", q.key+":q", q.key+":b")
		w = q.sits(t.Context(), 0)
		testkit.Eventually(t, 500*time.Millisecond, func() bool { return q.inQueue() == 1 }, "back in the queue")
		next, _ := q.handOver(h, w)
		require.EqualValues(t, 2, leaseOf(next).State().Passes, "given on by the place that it took")
		q.unlock(next)
		q.requireNothingLeft()
	})
}

// While something of the first seat is under way, the lock goes to the second one. The first is next.
func TestPassedOverTheFirstSeat(t *testing.T) {
	t.Parallel()
	q, proxy := newSeatBenchBehind(t)
	h := q.take(q.clients[0])
	fresh(h)
	proxy.On(faults.Script(script.Enqueue.SHA), 1, faults.Delay(500*time.Millisecond))
	first := q.wait(t.Context(), q.clients[0])
	require.True(t, proxy.Await(faults.Script(script.Enqueue.SHA), 1, testkit.Patience))
	second := q.wait(t.Context(), q.clients[0])
	testkit.Eventually(t, testkit.Patience, func() bool { return q.clients[0].waiting(q.key) == 2 }, "both sit")
	value := q.value()
	q.unlock(h)
	next := second.granted()
	require.False(t, first.isOver())
	require.Equal(t, value, q.value())
	q.unlock(next)
	q.unlock(first.granted())
	q.requireNothingLeft()
	q.requireNoLines()
}

// A first seat that was woken is not passed on to: Redis may have given the lock away, to its place.
func TestPlaceThatWasWoken(t *testing.T) {
	t.Parallel()
	q, proxy := newSeatBenchBehind(t)
	h := q.take(q.clients[0])
	w := q.sits(t.Context(), 0)
	proxy.On(faults.Script(script.Claim.SHA), 1, faults.DelayRequest(300*time.Millisecond))
	fresh(h)
	value := q.value()
	q.clients[0].engine.Queue.Notify(q.snapshotQueue()[0], q.key)
	require.False(t, q.restsInRedis(q.clients[0]))
	q.unlock(h)
	next := w.granted()
	require.NotEqual(t, value, q.value())
	q.unlock(next)
	q.requireNothingLeft()
}

package waitqueue_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// moveTo moves the slot of the lock to the other master of two.
func moveTo(q *bench, c *redistest.Cluster) {
	q.Helper()
	to := other(q, c)
	c.MoveSlot(q, c.SlotOf(q, q.Key), to)
	q.Server = to
}

func other(q *bench, c *redistest.Cluster) *redistest.Server {
	if c.Servers[0] == q.Server {
		return c.Servers[1]
	}
	return c.Servers[0]
}

// onTwoMasters runs a test in each mode, on a Cluster of two masters.
func onTwoMasters(t *testing.T, modes []mode, clients int, run func(q *bench, c *redistest.Cluster)) {
	t.Helper()
	c := redistest.StartCluster(t, 2, 0)
	for _, m := range modes {
		run(locktest.NewClusterBench(t, c, m, clients), c)
	}
}

// waitEach begins a wait of each client but the first, one after another. The
// server sees their subscriptions.
func waitEach(q *bench, opts ...relock.LockOption) (all []*waiting) {
	q.Helper()
	for i, client := range q.Clients[1:] {
		all = append(all, q.WaitSubscribed(i, client, opts...))
	}
	return all
}

// After the end of a slot's move, waiters are notified at the new server. They
// do not wait for a poll.
func TestHandOffsAfterASlotHasMoved(t *testing.T) {
	onTwoMasters(t, locktest.QueueModes, 2, func(q *bench, c *redistest.Cluster) {
		var took []time.Duration
		for range 5 {
			took = append(took, handOffToSecond(q, locktest.SlowPoll, func() {
				q.AwaitSubscribed(q.Clients[1])
				moveTo(q, c)
			}))
		}
		requireMedian(t, took, locktest.SlowPoll/4)
		require.LessOrEqual(t, len(shardChannels(t, q.Server)), 2)
		require.Empty(t, shardChannels(t, other(q, c)))
	})
}

// The waiters' channels are at the new server soon, without a request of a
// caller.
func TestChannelsFollowASlot(t *testing.T) {
	c := redistest.StartCluster(t, 2, 0)
	q := locktest.NewClusterBench(t, c, locktest.PlainUnfair, 4)
	h := q.Take(q.Clients[0], relock.WithExpiry(time.Minute))
	waiting := waitEach(q, relock.WithPollInterval(locktest.SlowPoll))
	var took []time.Duration
	for range 5 {
		moveTo(q, c)
		watch := testkit.NewStopwatch(t)
		testkit.Eventually(t, testkit.Patience, func() bool { return len(shardChannels(t, q.Server)) == 3 }, "all are there")
		took = append(took, watch.Net())
		for _, client := range q.Clients[1:] {
			q.AwaitSubscribed(client)
		}
	}
	requireMedian(t, took, locktest.SlowPoll/4)
	q.Unlock(h)
	q.UnlockEach(waiting...)
	q.RequireNothingLeft()
}

// While a slot is half moved, no message arrives. The calls for an unfair lock
// go on by themselves, and those for a fair one after the move. Then messages
// arrive again.
func TestHandOffsWhileASlotMoves(t *testing.T) {
	onTwoMasters(t, locktest.QueueModes, 2, func(q *bench, c *redistest.Cluster) {
		h := q.Take(q.Clients[0], relock.WithExpiry(time.Minute))
		w := q.WaitSubscribed(0, q.Clients[1], relock.WithPollInterval(50*time.Millisecond))
		move := c.BeginMove(t, c.SlotOf(t, q.Key), other(q, c))
		move.MoveKeys(t, move.Left(t, 100)...)
		if q.Fair {
			q.Unlock(h)
			move.Finish(t)
			q.Unlock(w.Granted())
		} else {
			q.Unlock(h)
			q.Unlock(w.Granted()) // before the move has ended, and the lease
			move.Finish(t)
		}
		q.Server = other(q, c)
		took := handOffToSecond(q, locktest.SlowPoll, func() { q.AwaitSubscribed(q.Clients[1]) })
		require.Less(t, took, locktest.SlowPoll/2)
	})
}

// requireTurnsKept moves the slot of a fair lock for which others wait. They
// are served in the order in which they came.
func requireTurnsKept(t *testing.T, clients int, meanwhile func(q *bench, h relock.Hold, move *redistest.Move)) {
	t.Helper()
	t.Parallel()
	onTwoMasters(t, allFair, clients, func(q *bench, c *redistest.Cluster) {
		h := q.Take(q.Clients[0])
		waiting := waitEach(q, patient) // each has 3.6s to take its turn
		move := c.BeginMove(t, c.SlotOf(t, q.Key), other(q, c))
		meanwhile(q, h, move)
		move.Finish(t)
		q.Server = other(q, c)
		for i, w := range waiting {
			q.Unlock(w.Granted())
			require.True(t, i == 0 || waiting[i-1].At.Before(w.At), q.Title())
		}
		q.RequireNothingLeft()
	})
}

// The lock is handed off when its slot has begun to move, and all keys are
// still at the old server. The waiter keeps its turn until the slot has moved.
func TestTurnIsKeptWhileASlotMoves(t *testing.T) {
	requireTurnsKept(t, 3, func(q *bench, h relock.Hold, move *redistest.Move) {
		q.Unlock(h)
		time.Sleep(50 * time.Millisecond) // for a claim at the old server
		if q.Kind != "RWLock" {           // its release hands off after the move
			require.Contains(t, move.Left(t, 100), q.Key, "granted or reserved: %s", q.Title())
		}
	})
}

// A slot was half moved for so long that no client could send a heartbeat for a
// period. After the move the server does not see their subscriptions at first.
// Fair waiters keep their turns.
func TestTurnIsKeptAfterASlotHasMoved(t *testing.T) {
	requireTurnsKept(t, 4, func(q *bench, h relock.Hold, move *redistest.Move) {
		move.MoveKeys(t, q.Key)
		time.Sleep(1200 * time.Millisecond) // more than a period
		move.MoveKeys(t, move.Left(t, 100)...)
		q.Unlock(h) // before the others know
	})
}

// A slot moves again and again, key by key, while its lock goes round: there
// are no two holders, and no waiter sleeps for ever.
func TestSlotMovesDuringHandOffs(t *testing.T) {
	const goroutines, turns = 6, 8
	onTwoMasters(t, locktest.QueueModes, 3, func(q *bench, c *redistest.Cluster) {
		var inside, served atomic.Int64
		var results []<-chan error
		for i := range goroutines {
			results = append(results, async(q, q.Lock(q.Clients[i%3]), turns, func() {
				if inside.Add(1) != 1 {
					panic("two holders")
				}
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				served.Add(1)
			}))
		}
		slot, moves := c.SlotOf(t, q.Key), 0
		for served.Load() < goroutines*turns && moves < 40 {
			c.MoveSlotSlowly(t, slot, other(q, c), 3*time.Millisecond)
			q.Server = other(q, c)
			moves++
		}
		testkit.AllWithin(t, results, testkit.Patience)
		require.Positive(t, moves)
		q.RequireNothingLeft()
	})
}

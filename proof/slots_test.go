package proof

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// movedModes are the locks whose slot moves.
var movedModes = append(slices.Clone(locktest.QueueModes), locktest.QueueMode{Kind: "RWLock"},
	locktest.QueueMode{Kind: "RWLock", Fair: true})

// slotTest is locks of all kinds that have one slot.
type slotTest struct {
	*testing.T
	cluster *redistest.Cluster
	load    *locktest.Load
	flows   []*locktest.QueueBench // goroutines take these
	queues  []*locktest.QueueBench // fair, with waiters in a known order
	kept    []relock.Hold
	gaps    map[string][]time.Duration // net, after the end of a move, by flow
}

// A slot moves again and again, immediately and slowly, while locks of all
// kinds go round among four clients. No two holds are valid together, none is
// lost, fair ones are granted in order, and nothing is left. After a move the
// locks go round as before. It runs alone, because it measures how soon. What
// the machine adds to three grants in a row does not count.
func TestHandOffsWhileSlotsMove(t *testing.T) {
	s := newSlotTest(t)
	for _, pause := range pick(
		slices.Concat(slices.Repeat([]time.Duration{0}, 10), slices.Repeat([]time.Duration{300 * time.Millisecond}, 5),
			slices.Repeat([]time.Duration{time.Second}, 5)),
		[]time.Duration{0, 300 * time.Millisecond},
	) {
		s.move(pause)
	}
	s.load.Stop()
	s.load.RequireNoOverlap()
	for _, h := range s.kept {
		require.NoError(t, h.Unlock(context.Background()))
	}
	s.requireNothingLeft()
	require.Less(t, s.medianGap(), pick(100*time.Millisecond, locktest.NotifyLimit))
	require.GreaterOrEqual(t, s.load.Holds(), pick(1000, 50))
}

func newSlotTest(t *testing.T) *slotTest {
	t.Helper()
	s := &slotTest{
		T: t, cluster: redistest.StartCluster(t, 3, 0), load: locktest.NewLoad(t), gaps: map[string][]time.Duration{},
	}
	s.load.Lossless = true
	for _, m := range movedModes {
		flow := locktest.NewClusterBench(t, s.cluster, m, competing)
		s.flows = append(s.flows, flow)
		for _, c := range flow.Clients {
			s.load.Begin(m.Title(), false, flow.Lock(c, relock.WithFencing()).Acquire)
			if m.Kind == "RWLock" {
				s.load.Begin(m.Title(), true, flow.Reading().Lock(c, relock.WithFencing()).Acquire)
			}
		}
		if m.Fair {
			s.queues = append(s.queues, locktest.NewClusterBench(t, s.cluster, m, 2))
		}
		own := locktest.NewClusterBench(t, s.cluster, m, 1)
		s.kept = append(s.kept, own.Take(own.Clients[0], relock.WithWatchdog(2*time.Second)))
	}
	s.load.AwaitAll()
	return s
}

// orderedQueue is waiters in a known order, whose lock is held.
type orderedQueue struct {
	*locktest.QueueBench
	held    relock.Hold
	waiting []*locktest.Waiting
}

// newQueue queues waiters of both clients.
func (s *slotTest) newQueue(q *locktest.QueueBench) *orderedQueue {
	all := &orderedQueue{QueueBench: q, held: q.Take(q.Clients[0])}
	for i := range 6 {
		all.waiting = append(all.waiting, q.WaitNext(s.Context(), i, q.Clients[i%2]))
	}
	return all
}

// requireOrder releases the lock for one waiter after another.
func (q *orderedQueue) requireOrder() {
	for _, w := range q.waiting {
		q.Unlock(q.held)
		q.held = w.Granted()
	}
	q.Unlock(q.held)
}

// move moves the slot. The queues go on at some moment of the move.
func (s *slotTest) move(pause time.Duration) {
	from := s.flows[0].Server
	to := otherThan(s, s.cluster, from)
	var queues []*orderedQueue
	for _, q := range s.queues {
		queues = append(queues, s.newQueue(q))
	}
	results := make(chan struct{}, len(queues))
	goOn := rand.IntN(3)
	release := func(now int) {
		if now != goOn {
			return
		}
		for _, q := range queues {
			go func() {
				defer func() { results <- struct{}{} }()
				q.requireOrder()
			}()
		}
	}
	release(0)
	move := s.cluster.BeginMove(s, s.cluster.SlotOf(s, locktest.QueueKey), to)
	time.Sleep(pause / 2)
	keys := move.Left(s, 1000)
	move.MoveKeys(s, keys[:len(keys)/2]...)
	release(1)
	time.Sleep(pause / 2)
	start, watch := time.Now(), testkit.NewStopwatch(s)
	move.Finish(s)
	release(2)
	var gaps []time.Duration
	for _, f := range s.flows {
		gaps = append(gaps, s.load.AwaitGrants(f.Title(), move.Ended, 3))
	}
	added := time.Since(start) - watch.Net() // by the machine
	for i, f := range s.flows {
		s.gaps[f.Title()] = append(s.gaps[f.Title()], max(0, gaps[i]-added).Round(time.Millisecond))
	}
	for range queues {
		<-results
	}
	s.load.AwaitAll()
	for _, q := range slices.Concat(s.flows, s.queues) {
		q.Server = to
	}
	for _, h := range s.kept {
		require.NoError(s, h.Err())
	}
}

// otherThan returns another master.
func otherThan(t testing.TB, c *redistest.Cluster, one *redistest.Server) *redistest.Server {
	t.Helper()
	others := slices.DeleteFunc(c.Masters(t), func(other *redistest.Server) bool { return other == one })
	return others[rand.IntN(len(others))]
}

// requireNothingLeft checks that the slot has only counters, at one server.
func (s *slotTest) requireNothingLeft() {
	for _, q := range slices.Concat(s.flows, s.queues) {
		q.RequireIdle()
		for _, one := range s.cluster.Servers {
			n, err := redis.Int(one.Do(s, "CLUSTER", "COUNTKEYSINSLOT", s.cluster.SlotOf(s, locktest.QueueKey)), nil)
			require.NoError(s, err)
			require.True(s, n == 0 || one == q.Server, "%s has %d keys", one, n)
		}
	}
}

// medianGap prints how long after a move each lock was granted three times. It
// returns the median.
func (s *slotTest) medianGap() time.Duration {
	var all []time.Duration
	for name, gaps := range s.gaps {
		slices.Sort(gaps)
		s.Logf("%s: 3 grants after a move within %v", name, gaps)
		all = append(all, gaps...)
	}
	slices.Sort(all)
	s.Logf("%d holds; 3 grants after a move: median %v, most %v", s.load.Holds(), all[len(all)/2], all[len(all)-1])
	return all[len(all)/2]
}

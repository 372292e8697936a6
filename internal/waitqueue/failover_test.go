package waitqueue_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

var allFair = append(slices.Clone(locktest.Fair), mode{Kind: "RWLock", Fair: true})

// failover is a lock whose master is replaced. Each client learns of that on
// its own.
type failover struct {
	*bench
	set        *locktest.Replicated
	topologies []*locktest.Topology // of the clients
}

func newFailover(t testing.TB, m mode, clients int) *failover {
	f := &failover{set: locktest.NewReplicated(t)}
	f.bench = &bench{TB: t, QueueMode: m, Server: f.set.Master}
	var opts []relock.ClientOption
	for range clients {
		p := locktest.NewTopology(true, f.Server)
		f.topologies, f.Clients = append(f.topologies, p), append(f.Clients, p.Client(t, opts...))
		opts = []relock.ClientOption{relock.WithKeyPrefix(locktest.Prefix(f.Clients[0]))}
	}
	f.Key = locktest.KeyOf(f.Clients[0], locktest.QueueKey)
	return f
}

// failOver makes the replica the master once it has what the master has. No
// client knows of it yet. The old master takes writes as before.
func (f *failover) failOver() {
	f.Helper()
	f.set.AwaitCopy()
	f.set.Disconnect()
	f.Server = f.set.Replica
}

// lead lets clients know the new master, in this order.
func (f *failover) lead(clients ...int) {
	for _, i := range clients {
		f.topologies[i].SetMasters(f.Server)
	}
}

// since returns for how much queue time a client's heartbeat is not the newest.
func (f *failover) since(c *relock.Client) time.Duration {
	f.Helper()
	fields, err := redis.StringMap(f.Server.Do(f, "HGETALL", f.Key+":b"), nil)
	require.NoError(f, err)
	own, _, _ := strings.Cut(fields[locktest.Engine(c).Identity.ID], ":")
	at, err1 := strconv.ParseInt(own, 10, 64)
	newest, err2 := strconv.ParseInt(strings.Split(fields["a"]+"::", ":")[1], 10, 64)
	require.NoError(f, err1)
	require.NoError(f, err2)
	return time.Duration(newest-at) * time.Microsecond
}

// requireServed waits until all were served, and checks that it was in this
// order.
func (f *failover) requireServed(all []*waiting) {
	f.Helper()
	f.UnlockEach(all...)
	require.True(f, slices.IsSortedFunc(all, func(a, b *waiting) int { return a.At.Compare(b.At) }), "served out of order")
	f.RequireNothingLeft()
}

// The lock is unlocked at the new master before that sees a subscription of the
// waiters. Their last heartbeats are more than a period old. They keep their
// turns.
func TestTurnIsKeptAfterAFailover(t *testing.T) {
	locktest.EachMode(t, allFair, func(t testing.TB, m mode) {
		f := newFailover(t, m, 4)
		h := f.Take(f.Clients[0])
		waiting := waitEach(f.bench, patient) // each has 3.6s to take its turn
		testkit.Eventually(t, testkit.Patience, func() bool { return f.since(f.Clients[1]) > 0 },
			"another heartbeat is newer")
		f.failOver()
		time.Sleep(1200 * time.Millisecond) // more than a period
		f.lead(0)
		f.Unlock(h)
		f.lead(3, 2, 1)
		f.requireServed(waiting)
	})
}

// Waiters that the new master does not know come back with their tickets, in
// any order. So they are before a newcomer, and behind those that it knows.
func TestWaitersComeBackWithTheirTickets(t *testing.T) {
	locktest.EachMode(t, allFair, func(t testing.TB, m mode) {
		f := newFailover(t, m, 6)
		h := f.Take(f.Clients[0])
		newcomer, others := f.Clients[5], f.Clients[2:5]
		all := []*waiting{f.WaitSubscribed(0, f.Clients[1], patient)}
		f.failOver()
		f.Server = f.set.Master
		for i, c := range others {
			all = append(all, f.WaitSubscribed(i+1, c, patient))
		}
		f.Server = f.set.Replica
		f.lead(0, 1, 5)
		require.Equal(t, 1, f.QueueLength())
		f.lead(4)
		f.AwaitQueued(2)
		last := f.WaitNext(t.Context(), 2, newcomer, patient)
		f.lead(3)
		f.AwaitQueued(4)
		f.lead(2)
		f.AwaitQueued(5)
		f.Unlock(h)
		f.requireServed(append(all, last))
		for _, c := range f.Clients[1:] {
			testkit.Eventually(t, testkit.Patience, func() bool {
				return locktest.Engine(c).Queue.State().Nodes == 1
			}, "one node")
		}
	})
}

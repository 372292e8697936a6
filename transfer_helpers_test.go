package relock

import (
	"context"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

var reentrantUnfair = queueMode{"ReentrantLock", false}

// newTransferBench is an unfair reentrant lock with several waiters of one client, and another client.
func newTransferBench(t testing.TB, opts ...ClientOption) *queueBench {
	return newQueueBench(t, reentrantUnfair, 2, opts...)
}

// newTransferBenchBehind is a bench whose first client is behind a proxy, and whose server knows the scripts.
func newTransferBenchBehind(t testing.TB, opts ...ClientOption) (*queueBench, *faults.Proxy) {
	s := taught(t, redistest.Start(t))
	proxy := faults.Start(t, s.Network, s.Address)
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, opts...)
	q := &queueBench{TB: t, queueMode: reentrantUnfair, server: s, clients: []*Client{c, sibling(t, s, c)}, key: keyOf(c, queueKey)}
	return q, proxy
}

var transferOnly = faults.Script(script.ReentrantTransfer.SHA)

// stored is what the lock's hash holds.
func (q *queueBench) stored() map[string]string {
	q.Helper()
	fields, err := redis.StringMap(q.server.Do(q, "HGETALL", q.key), nil)
	require.NoError(q, err)
	return fields
}

func leaseOf(h Hold) *lease.Lease { return h.(hold).level.Lease() }

// membersOf are the holds that a hold is made of.
func membersOf(h Hold) []*lease.Hold { return h.(hold).level.Members() }

// holdOf is the id of a reentrant hold.
func holdOf(h Hold) string { return leaseOf(h).Protocol().HoldID() }

// requireStored checks that the server has the hold, with so many levels of its owner, and nothing else.
func (q *queueBench) requireStored(h Hold, levels int) {
	q.Helper()
	fields := q.stored()
	require.Equal(q, holdOf(h), fields["hold"])
	require.Equal(q, strconv.Itoa(levels), fields[leaseOf(h).OwnerKey().ID])
	require.Contains(q, fields["info"], leaseOf(h).Holder())
	require.Len(q, fields, 4, "%v", fields)
}

// requireForgotten sees that the clients have nothing of the lock in their books.
func (q *queueBench) requireForgotten() {
	q.Helper()
	for _, c := range q.clients {
		testkit.Eventually(q, testkit.Patience, func() bool {
			s := c.engine.State()
			return s.Leases == 0 && s.Owners == 0
		}, "no lease and no owner is left")
	}
}

// unlockEach gives the lock to all of them, in any order.
func (q *queueBench) unlockEach(all ...*waiting) {
	q.Helper()
	var results []<-chan error
	for _, w := range all {
		results = append(results, testkit.Async(q, func() error {
			<-w.ended
			if w.err != nil {
				return w.err
			}
			return w.hold.Unlock(context.Background())
		}))
	}
	for _, result := range results {
		require.NoError(q, testkit.ResultWithin(q, result, testkit.Patience))
	}
}

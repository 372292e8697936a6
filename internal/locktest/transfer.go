package locktest

import (
	"context"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

var ReentrantUnfair = QueueMode{"ReentrantLock", false}

// NewTransferBench is an unfair reentrant lock with several waiters of one client, and another client.
func NewTransferBench(t testing.TB, opts ...relock.ClientOption) *QueueBench {
	return NewQueueBench(t, ReentrantUnfair, 2, opts...)
}

// NewTransferBenchBehind is a bench whose first client is behind a proxy, and whose server knows the scripts.
func NewTransferBenchBehind(t testing.TB, opts ...relock.ClientOption) (*QueueBench, *faults.Proxy) {
	s := Taught(t, redistest.Start(t))
	proxy := faults.Start(t, s.Network, s.Address)
	c := NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, opts...)
	q := &QueueBench{TB: t, QueueMode: ReentrantUnfair, Server: s, Clients: []*relock.Client{c, Sibling(t, s, c)}, Key: KeyOf(c, QueueKey)}
	return q, proxy
}

var TransferOnly = faults.Script(script.ReentrantTransfer.SHA)

// stored is what the lock's hash holds.
func (q *QueueBench) stored() map[string]string {
	q.Helper()
	fields, err := redis.StringMap(q.Server.Do(q, "HGETALL", q.Key), nil)
	require.NoError(q, err)
	return fields
}

func LeaseOf(h relock.Hold) *lease.Lease { return Level(h).Lease() }

// MembersOf are the holds that a hold is made of.
func MembersOf(h relock.Hold) []*lease.Hold { return Level(h).Members() }

// HoldOf is the id of a reentrant hold.
func HoldOf(h relock.Hold) string { return LeaseOf(h).Protocol().HoldID() }

// RequireStored checks that the server has the hold, with so many levels of its owner, and nothing else.
func (q *QueueBench) RequireStored(h relock.Hold, levels int) {
	q.Helper()
	fields := q.stored()
	require.Equal(q, HoldOf(h), fields["hold"])
	require.Equal(q, strconv.Itoa(levels), fields[LeaseOf(h).OwnerKey().ID])
	require.Contains(q, fields["info"], LeaseOf(h).Holder())
	require.Len(q, fields, 4, "%v", fields)
}

// RequireForgotten sees that the clients have nothing of the lock in their books.
func (q *QueueBench) RequireForgotten() {
	q.Helper()
	for _, c := range q.Clients {
		testkit.Eventually(q, testkit.Patience, func() bool {
			s := Engine(c).State()
			return s.Leases == 0 && s.Owners == 0
		}, "no lease and no owner is left")
	}
}

// UnlockEach gives the lock to all of them, in any order.
func (q *QueueBench) UnlockEach(all ...*Waiting) {
	q.Helper()
	var results []<-chan error
	for _, w := range all {
		results = append(results, testkit.Async(q, func() error {
			<-w.Ended
			if w.Err != nil {
				return w.Err
			}
			return w.Hold.Unlock(context.Background())
		}))
	}
	for _, result := range results {
		require.NoError(q, testkit.ResultWithin(q, result, testkit.Patience))
	}
}

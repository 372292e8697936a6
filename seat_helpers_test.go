package relock

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// newSeatBench is a bench with an unfair plain lock with several waiters of one client, and another client.
func newSeatBench(t testing.TB, opts ...ClientOption) *queueBench {
	return newQueueBench(t, queueMode{"RedisLock", false}, 2, opts...)
}

// newSeatBenchBehind is a bench whose one client is behind a proxy, and whose server knows the scripts.
func newSeatBenchBehind(t testing.TB, opts ...ClientOption) (*queueBench, *faults.Proxy) {
	s := taught(t, redistest.Start(t))
	proxy := faults.Start(t, s.Network, s.Address)
	behind := &redistest.Server{Network: proxy.Network, Address: proxy.Address}
	q := &queueBench{TB: t, queueMode: queueMode{"RedisLock", false}, server: s, clients: []*Client{newTestClient(t, behind, opts...)}}
	q.key = keyOf(q.clients[0], queueKey)
	return q, proxy
}

// sits begins to wait at the first client, behind n others; the first of them then stands in Redis too.
func (q *queueBench) sits(ctx context.Context, n int, opts ...LockOption) *waiting {
	q.Helper()
	w := q.wait(ctx, q.clients[0], opts...)
	testkit.Eventually(q, testkit.Patience, func() bool { return q.clients[0].waiting(q.key) == n+1 }, "sits")
	testkit.Eventually(q, testkit.Patience, func() bool { return q.restsInRedis(q.clients[0]) }, "the first waits in Redis")
	return w
}

// restsInRedis says that the first seat's place is in Redis, with nothing of it under way.
func (q *queueBench) restsInRedis(c *Client) bool {
	return c.engine.Queue.State().Lines[q.key].Resting
}

func (q *queueBench) value() string {
	q.Helper()
	value, _ := q.server.Do(q, "GET", q.key).([]byte)
	return string(value)
}

// fresh gives a hold all the time in the world to be passed on.
func fresh(h Hold) { grantedAt(h, time.Now().Add(time.Hour)) }

// grantedAt makes the lease of a hold look as if Redis had granted it then.
func grantedAt(h Hold, at time.Time) {
	leaseOf(h).Set(func(s *lease.State) { s.Granted = at })
}

// requireNoLines checks that the clients have forgotten their waits.
func (q *queueBench) requireNoLines() {
	q.Helper()
	for _, c := range q.clients {
		testkit.Eventually(q, testkit.Patience, func() bool {
			state := c.engine.Queue.State()
			return len(state.Lines) == 0 && state.Waits == 0
		}, "nothing is remembered")
	}
}

// believeLess moves the end of a hold's belief to so long from now.
func believeLess(h Hold, d time.Duration) {
	leaseOf(h).Set(func(s *lease.State) { s.ValidUntil = time.Now().Add(d) })
}

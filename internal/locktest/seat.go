package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// NewSeatBench is a bench with an unfair plain lock with several waiters of one client, and another client.
func NewSeatBench(t testing.TB, opts ...relock.ClientOption) *QueueBench {
	return NewQueueBench(t, QueueMode{"RedisLock", false}, 2, opts...)
}

// NewSeatBenchBehind is a bench whose one client is behind a proxy, and whose server knows the scripts.
func NewSeatBenchBehind(t testing.TB, opts ...relock.ClientOption) (*QueueBench, *faults.Proxy) {
	s := Taught(t, redistest.Start(t))
	proxy := faults.Start(t, s.Network, s.Address)
	behind := &redistest.Server{Network: proxy.Network, Address: proxy.Address}
	q := &QueueBench{TB: t, QueueMode: QueueMode{"RedisLock", false}, Server: s, Clients: []*relock.Client{NewTestClient(t, behind, opts...)}}
	q.Key = KeyOf(q.Clients[0], QueueKey)
	return q, proxy
}

// Sits begins to wait at the first client, behind n others; the first of them then stands in Redis too.
func (q *QueueBench) Sits(ctx context.Context, n int, opts ...relock.LockOption) *Waiting {
	q.Helper()
	w := q.Wait(ctx, q.Clients[0], opts...)
	testkit.Eventually(q, testkit.Patience, func() bool { return WaitingIn(q.Clients[0], q.Key) == n+1 }, "sits")
	testkit.Eventually(q, testkit.Patience, func() bool { return q.RestsInRedis(q.Clients[0]) }, "the first waits in Redis")
	return w
}

// RestsInRedis says that the first seat's place is in Redis, with nothing of it under way.
func (q *QueueBench) RestsInRedis(c *relock.Client) bool {
	return Engine(c).Queue.State().Lines[q.Key].Resting
}

func (q *QueueBench) Value() string {
	q.Helper()
	value, _ := q.Server.Do(q, "GET", q.Key).([]byte)
	return string(value)
}

// Fresh gives a hold all the time in the world to be passed on.
func Fresh(h relock.Hold) { GrantedAt(h, time.Now().Add(time.Hour)) }

// GrantedAt makes the lease of a hold look as if Redis had granted it then.
func GrantedAt(h relock.Hold, at time.Time) {
	LeaseOf(h).Set(func(s *lease.State) { s.Granted = at })
}

// RequireNoLines checks that the clients have forgotten their waits.
func (q *QueueBench) RequireNoLines() {
	q.Helper()
	for _, c := range q.Clients {
		testkit.Eventually(q, testkit.Patience, func() bool {
			state := Engine(c).Queue.State()
			return len(state.Lines) == 0 && state.Waits == 0
		}, "nothing is remembered")
	}
}

// BelieveLess moves the end of a hold's belief to so long from now.
func BelieveLess(h relock.Hold, d time.Duration) {
	LeaseOf(h).Set(func(s *lease.State) { s.ValidUntil = time.Now().Add(d) })
}

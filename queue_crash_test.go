package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// Those behind a client that is gone, or hangs, get the lock.
func TestClientIsGoneWhileItWaits(t *testing.T) {
	t.Parallel()
	const waiters, claim = 10, 1250 * time.Millisecond
	type fate struct {
		name  string
		befel func(*faults.Proxy)
		limit time.Duration // with what a loaded machine may add
	}
	var cells []cellRun
	for _, f := range []fate{
		{"sockets cut", (*faults.Proxy).Refuse, claim + time.Second + 2*time.Second},
		{"hangs", (*faults.Proxy).Stall, 2500*time.Millisecond + claim + time.Second + 3*time.Second},
	} {
		for _, m := range queueModes() {
			cells = append(cells, cellRun{f.name + ", " + m.name(), func(t testing.TB) {
				q := newQueueBench(t, m, 2)
				proxy := faults.Start(t, q.server.Network, q.server.Address)
				gone := sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.clients[0])
				h := q.take(q.clients[0])
				ctx, cancel := context.WithCancel(t.Context())
				var lost []*waiting
				for i := range waiters {
					lost = append(lost, q.wait(ctx, gone))
					q.awaitQueued(q.inRedis(i+1, 1))
				}
				w := q.waitNext(context.Background(), q.inRedis(waiters, 1), q.clients[1])
				q.awaitHeard(gone)
				q.awaitHeard(q.clients[1])
				f.befel(proxy)
				if f.name == "sockets cut" {
					testkit.Eventually(t, testkit.Patience, func() bool { return q.listeners(gone) == 0 }, "the server sees the end of the connections")
				}
				next, d := q.handOver(h, w)
				t.Logf("%s, %s: %v after the unlock", f.name, m.name(), d)
				limit := f.limit
				if !m.fair && f.name == "sockets cut" {
					limit = claim / 2 // at once: its subscription is gone
				}
				require.Less(t, d, limit)
				q.unlock(next)
				cancel()
				for _, w := range lost {
					require.Error(t, w.end())
				}
				proxy.Resume()
				proxy.Accept()
				testkit.Eventually(t, testkit.Patience, func() bool { return q.server.Do(t, "EXISTS", q.key, q.key+":q") == int64(0) }, "nothing left")
			}})
		}
	}
	together(t, cells)
}

// listeners is how many connections the server sends a client's messages to.
func (q *queueBench) listeners(c *Client) int64 {
	q.Helper()
	reply := q.server.Do(q, "PUBSUB", "NUMSUB", c.config.prefix+c.engine.Identity.ID)
	return reply.([]any)[1].(int64)
}

// A client that was cut off for longer than it looks alive comes back to its old place.
func TestClientThatComesBackKeepsItsPlace(t *testing.T) {
	eachKind(t, true, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		proxy := faults.Start(t, q.server.Network, q.server.Address)
		away := sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.clients[0])
		h := q.take(q.clients[0])
		first := q.waitNext(context.Background(), 0, away, WithPollInterval(time.Second)) // with 4 s to take it
		second := q.waitNext(context.Background(), 1, q.clients[1])
		third := q.waitNext(context.Background(), 2, q.clients[1])
		q.awaitHeard(away)
		q.awaitHeard(q.clients[1])
		proxy.Refuse()
		time.Sleep(3 * time.Second)
		next, d := q.handOver(h, second) // the first one looks gone, and is taken out
		t.Logf("passed over after %v", d)
		require.Equal(t, 1, q.inQueue())
		proxy.Accept()
		q.awaitQueued(2)
		q.awaitHeard(away)
		q.unlock(next)
		next = first.granted()
		require.False(t, third.isOver(), "the old place is the one before")
		q.unlock(next)
		q.unlock(third.granted())
		q.requireNothingLeft()
	})
}

package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
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
	var cells []locktest.CellRun
	for _, f := range []fate{
		{"sockets cut", (*faults.Proxy).Refuse, claim + time.Second + 2*time.Second},
		{"hangs", (*faults.Proxy).Stall, 2500*time.Millisecond + claim + time.Second + 3*time.Second},
	} {
		for _, m := range locktest.QueueModes() {
			cells = append(cells, locktest.CellRun{Name: f.name + ", " + m.Title(), Run: func(t testing.TB) {
				q := locktest.NewQueueBench(t, m, 2)
				proxy := faults.Start(t, q.Server.Network, q.Server.Address)
				gone := locktest.Sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.Clients[0])
				h := q.Take(q.Clients[0])
				ctx, cancel := context.WithCancel(t.Context())
				var lost []*locktest.Waiting
				for i := range waiters {
					lost = append(lost, q.Wait(ctx, gone))
					q.AwaitQueued(q.InRedis(i+1, 1))
				}
				w := q.WaitNext(context.Background(), q.InRedis(waiters, 1), q.Clients[1])
				q.AwaitHeard(gone)
				q.AwaitHeard(q.Clients[1])
				f.befel(proxy)
				if f.name == "sockets cut" {
					testkit.Eventually(t, testkit.Patience, func() bool { return q.Listeners(gone) == 0 }, "the server sees the end of the connections")
				}
				next, d := q.HandOver(h, w)
				t.Logf("%s, %s: %v after the unlock", f.name, m.Title(), d)
				limit := f.limit
				if !m.Fair && f.name == "sockets cut" {
					limit = claim / 2 // at once: its subscription is gone
				}
				require.Less(t, d, limit)
				q.Unlock(next)
				cancel()
				for _, w := range lost {
					require.Error(t, w.End())
				}
				proxy.Resume()
				proxy.Accept()
				testkit.Eventually(t, testkit.Patience, func() bool { return q.Server.Do(t, "EXISTS", q.Key, q.Key+":q") == int64(0) }, "nothing left")
			}})
		}
	}
	locktest.Together(t, cells)
}

// A client that was cut off for longer than it looks alive comes back to its old place.
func TestClientThatComesBackKeepsItsPlace(t *testing.T) {
	locktest.EachKind(t, true, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		proxy := faults.Start(t, q.Server.Network, q.Server.Address)
		away := locktest.Sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.Clients[0])
		h := q.Take(q.Clients[0])
		first := q.WaitNext(context.Background(), 0, away, relock.WithPollInterval(time.Second)) // with 4 s to take it
		second := q.WaitNext(context.Background(), 1, q.Clients[1])
		third := q.WaitNext(context.Background(), 2, q.Clients[1])
		q.AwaitHeard(away)
		q.AwaitHeard(q.Clients[1])
		proxy.Refuse()
		time.Sleep(3 * time.Second)
		next, d := q.HandOver(h, second) // the first one looks gone, and is taken out
		t.Logf("passed over after %v", d)
		require.Equal(t, 1, q.InQueue())
		proxy.Accept()
		q.AwaitQueued(2)
		q.AwaitHeard(away)
		q.Unlock(next)
		next = first.Granted()
		require.False(t, third.IsOver(), "the old place is the one before")
		q.Unlock(next)
		q.Unlock(third.Granted())
		q.RequireNothingLeft()
	})
}

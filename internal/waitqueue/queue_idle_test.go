package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/locktest"
)

// However many wait, a client asks the server about a lock once a second, and has one subscription.
func TestWaitersAreIdle(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		const waiters, clients, window = 60, 2, 3 * time.Second
		q := locktest.NewQueueBench(t, m, 1+clients)
		h := q.Take(q.Clients[0])
		ctx, cancel := context.WithCancel(t.Context())
		var all []*locktest.Waiting
		for i := range waiters {
			all = append(all, q.Wait(ctx, q.Clients[1+i%clients]))
		}
		q.AwaitQueued(q.InRedis(waiters, clients))
		for _, c := range q.Clients[1:] {
			q.AwaitHeard(c)
		}
		time.Sleep(200 * time.Millisecond)
		q.Server.Do(t, "CONFIG", "RESETSTAT")
		start := time.Now()
		time.Sleep(window)
		got := locktest.Calls(t, q.Server, "evalsha") + locktest.Calls(t, q.Server, "eval")
		seconds := time.Since(start).Seconds()
		t.Logf("%.1f scripts a second for %d clients with %d waiters", float64(got)/seconds, clients, waiters)
		require.LessOrEqual(t, float64(got), clients*(seconds+1), "scripts")
		require.GreaterOrEqual(t, got, clients*2, "a client that waits shows that it lives")
		subscribed, err := redis.Strings(q.Server.Do(t, "PUBSUB", "CHANNELS"), nil)
		require.NoError(t, err)
		require.Len(t, subscribed, clients)
		cancel()
		for _, w := range all {
			require.ErrorIs(t, w.End(), context.Canceled)
		}
		q.AwaitQueued(0)
		q.Unlock(h)
		q.RequireNothingLeft()
	})
}

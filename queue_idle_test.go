package relock

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// However many wait, a client asks the server about a lock once a second, and has one subscription.
func TestWaitersAreIdle(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		const waiters, clients, window = 60, 2, 3 * time.Second
		q := newQueueBench(t, m, 1+clients)
		h := q.take(q.clients[0])
		ctx, cancel := context.WithCancel(t.Context())
		var all []*waiting
		for i := range waiters {
			all = append(all, q.wait(ctx, q.clients[1+i%clients]))
		}
		q.awaitQueued(q.inRedis(waiters, clients))
		for _, c := range q.clients[1:] {
			q.awaitHeard(c)
		}
		time.Sleep(200 * time.Millisecond)
		q.server.Do(t, "CONFIG", "RESETSTAT")
		start := time.Now()
		time.Sleep(window)
		got := calls(t, q.server, "evalsha") + calls(t, q.server, "eval")
		seconds := time.Since(start).Seconds()
		t.Logf("%.1f scripts a second for %d clients with %d waiters", float64(got)/seconds, clients, waiters)
		require.LessOrEqual(t, float64(got), clients*(seconds+1), "scripts")
		require.GreaterOrEqual(t, got, clients*2, "a client that waits shows that it lives")
		subscribed, err := redis.Strings(q.server.Do(t, "PUBSUB", "CHANNELS"), nil)
		require.NoError(t, err)
		require.Len(t, subscribed, clients)
		cancel()
		for _, w := range all {
			require.ErrorIs(t, w.end(), context.Canceled)
		}
		q.awaitQueued(0)
		q.unlock(h)
		q.requireNothingLeft()
	})
}

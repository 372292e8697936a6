package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/testkit"
)

// Close ends all waits at once, and the subscription; TestMain sees whether a goroutine is left. The ones behind them get the lock.
func TestCloseEndsWaits(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		const waiters = 100
		q := newQueueBench(t, m, 2)
		closing := sibling(t, q.server, q.clients[0])
		h := q.take(q.clients[0])
		var all []*waiting
		for range waiters {
			all = append(all, q.wait(context.Background(), closing))
		}
		q.awaitQueued(q.inRedis(waiters, 1))
		next := q.waitNext(context.Background(), q.inRedis(waiters, 1), q.clients[1])
		q.awaitHeard(closing)
		start := time.Now()
		require.NoError(t, closing.Close())
		for _, w := range all {
			require.ErrorIs(t, w.end(), ErrClosed)
		}
		t.Logf("%d waiters ended after %v", waiters, time.Since(start))
		require.Less(t, time.Since(start), 2*time.Second)
		testkit.Eventually(t, testkit.Patience, func() bool {
			return q.server.Do(t, "PUBLISH", closing.config.prefix+closing.engine.Identity.ID, "") == int64(0)
		}, "no subscription")
		q.unlock(h)
		last := next.granted()
		t.Logf("the one behind them has the lock %v after the unlock", next.at.Sub(start))
		require.Less(t, next.at.Sub(start), 10*time.Second)
		q.unlock(last)
		q.requireNothingLeft()
		state := closing.engine.Queue.State()
		require.Empty(t, state.Lines)
		require.Zero(t, state.Waits)
	})
}

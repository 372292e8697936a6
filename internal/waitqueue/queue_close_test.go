package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// Close ends all waits at once, and the subscription; TestMain sees whether a goroutine is left. The ones behind them get the lock.
func TestCloseEndsWaits(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		const waiters = 100
		q := locktest.NewQueueBench(t, m, 2)
		closing := locktest.Sibling(t, q.Server, q.Clients[0])
		h := q.Take(q.Clients[0])
		var all []*locktest.Waiting
		for range waiters {
			all = append(all, q.Wait(context.Background(), closing))
		}
		q.AwaitQueued(q.InRedis(waiters, 1))
		next := q.WaitNext(context.Background(), q.InRedis(waiters, 1), q.Clients[1])
		q.AwaitHeard(closing)
		start := time.Now()
		require.NoError(t, closing.Close())
		for _, w := range all {
			require.ErrorIs(t, w.End(), relock.ErrClosed)
		}
		t.Logf("%d waiters ended after %v", waiters, time.Since(start))
		require.Less(t, time.Since(start), 2*time.Second)
		testkit.Eventually(t, testkit.Patience, func() bool {
			return q.Server.Do(t, "PUBLISH", locktest.Prefix(closing)+locktest.Engine(closing).Identity.ID, "") == int64(0)
		}, "no subscription")
		q.Unlock(h)
		last := next.Granted()
		t.Logf("the one behind them has the lock %v after the unlock", next.At.Sub(start))
		require.Less(t, next.At.Sub(start), 10*time.Second)
		q.Unlock(last)
		q.RequireNothingLeft()
		state := locktest.Engine(closing).Queue.State()
		require.Empty(t, state.Lines)
		require.Zero(t, state.Waits)
	})
}

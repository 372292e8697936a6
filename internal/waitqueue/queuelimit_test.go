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

// A call that would be one too many fails at once, also one that may wait; nothing of it is left.
func TestQueueLimit(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]locktest.QueueMode{
		"fair": {Kind: "RedisLock", Fair: true}, "reentrant": {Kind: "ReentrantLock", Fair: false}, "reentrant, fair": {Kind: "ReentrantLock", Fair: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := locktest.NewQueueBench(t, mode, 3)
			h := q.Take(q.Clients[0])
			w := q.Wait(t.Context(), q.Clients[1], relock.WithQueueLimit(1))
			q.AwaitQueued(1)
			start := time.Now()
			require.ErrorIs(t, q.Wait(t.Context(), q.Clients[2], relock.WithQueueLimit(1)).End(), relock.ErrQueueFull)
			require.Less(t, time.Since(start), testkit.Patience)
			q.AwaitQueued(1)
			q.Unlock(h)
			q.Unlock(w.Granted())
			q.RequireNothingLeft()
		})
	}
}

// Calls of one client for an unfair lock share one place in Redis; there may be as many of them too.
func TestQueueLimitInMemory(t *testing.T) {
	t.Parallel()
	q := locktest.NewSeatBench(t)
	h := q.Take(q.Clients[0])
	limit := relock.WithQueueLimit(2)
	first, second := q.Sits(t.Context(), 0, limit), q.Sits(t.Context(), 1, limit)
	require.ErrorIs(t, q.Wait(t.Context(), q.Clients[0], limit).End(), relock.ErrQueueFull)
	q.AwaitQueued(1)
	ctx, cancel := context.WithCancel(t.Context())
	other := q.Wait(ctx, q.Clients[1], limit)
	q.AwaitQueued(2)
	cancel()
	require.ErrorIs(t, other.End(), context.Canceled)
	q.Unlock(h)
	q.Unlock(first.Granted())
	q.Unlock(second.Granted())
	q.RequireNothingLeft()
	q.RequireNoLines()
}

package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/testkit"
)

// A call that would be one too many fails at once, also one that may wait; nothing of it is left.
func TestQueueLimit(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]queueMode{
		"fair": {"RedisLock", true}, "reentrant": {"ReentrantLock", false}, "reentrant, fair": {"ReentrantLock", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueueBench(t, mode, 3)
			h := q.take(q.clients[0])
			w := q.wait(t.Context(), q.clients[1], WithQueueLimit(1))
			q.awaitQueued(1)
			start := time.Now()
			require.ErrorIs(t, q.wait(t.Context(), q.clients[2], WithQueueLimit(1)).end(), ErrQueueFull)
			require.Less(t, time.Since(start), testkit.Patience)
			q.awaitQueued(1)
			q.unlock(h)
			q.unlock(w.granted())
			q.requireNothingLeft()
		})
	}
}

// Calls of one client for an unfair lock share one place in Redis; there may be as many of them too.
func TestQueueLimitInMemory(t *testing.T) {
	t.Parallel()
	q := newSeatBench(t)
	h := q.take(q.clients[0])
	limit := WithQueueLimit(2)
	first, second := q.sits(t.Context(), 0, limit), q.sits(t.Context(), 1, limit)
	require.ErrorIs(t, q.wait(t.Context(), q.clients[0], limit).end(), ErrQueueFull)
	q.awaitQueued(1)
	ctx, cancel := context.WithCancel(t.Context())
	other := q.wait(ctx, q.clients[1], limit)
	q.awaitQueued(2)
	cancel()
	require.ErrorIs(t, other.end(), context.Canceled)
	q.unlock(h)
	q.unlock(first.granted())
	q.unlock(second.granted())
	q.requireNothingLeft()
	q.requireNoLines()
}

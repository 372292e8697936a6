package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// limitedTo is a call of enqueue that may be one of so many.
func limitedTo(w scriptWait, limit any) script.Call {
	s := w.enqueue()
	s.Args = append(s.Args, limit)
	return s
}

// A newcomer is refused when as many wait as may; one that is in the queue already, or has a ticket, is not a newcomer.
func TestEnqueueIsLimited(t *testing.T) {
	s := redistest.Shared(t)
	first, second, third := waitNamed("c1", 1, "pf"), waitNamed("c2", 1, "pf"), waitNamed("c3", 1, "pf")
	b := newQueueScripts(t, s)
	require.Equal(t, "1", b.code(waitNamed("c9", 1, "pf").try()))
	require.Equal(t, "0", b.code(limitedTo(first, 2)))
	require.Equal(t, "0", b.code(limitedTo(second, 2)))
	require.Equal(t, "5", b.code(limitedTo(third, 2)))
	require.Equal(t, []string{string(first), string(second)}, b.waits())
	require.Equal(t, "0", b.code(limitedTo(second, 2)), "is in the queue")
	again := third.enqueueAgain("1", "")
	again.Args = append(again.Args, 2)
	require.Equal(t, "0", b.code(again), "has a ticket")
	require.Equal(t, "0", b.code(limitedTo(waitNamed("c4", 1, "pf"), 4)))
}

// A full queue of a free lock: it is handed over, or taken when nobody of those who wait lives.
func TestEnqueueAtAFullQueueOfAFreeLock(t *testing.T) {
	s := redistest.Shared(t)
	w, other := waitNamed("c1", 1, "pf"), waitNamed("c2", 1, "pf")
	t.Run("handed over", func(t *testing.T) {
		b := newQueueScripts(t, s)
		b.show(map[string]shownBeat{"c2": {0, 0}})
		b.line(time.Minute, other)
		require.Equal(t, "5", b.code(limitedTo(w, 1)))
		require.Equal(t, other.reserved(), b.lock())
		require.Empty(t, b.waits())
	})
	t.Run("all are gone", func(t *testing.T) {
		b := newQueueScripts(t, s)
		b.line(time.Minute, staleWaits(3)...)
		require.Equal(t, "1", b.code(limitedTo(w, 3)))
		require.Equal(t, w.held(), b.lock())
	})
	t.Run("more are gone than one script looks at", func(t *testing.T) {
		b := newQueueScripts(t, s)
		b.line(time.Minute, staleWaits(130)...)
		require.Equal(t, "5", b.code(limitedTo(w, 3)))
		require.Empty(t, b.lock())
		require.Len(t, b.waits(), 2)
	})
}

func TestEnqueueRefusesBadLimits(t *testing.T) {
	b := newQueueScripts(t, redistest.Shared(t))
	for _, limit := range []any{"", "0", "-1", "x"} {
		_, err := b.send(limitedTo(waitNamed("c1", 1, "pf"), limit))
		require.ErrorContains(t, err, "bad arguments")
	}
}

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

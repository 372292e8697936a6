package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/testkit"
)

// Two goroutines of one owner wait: when one of them is granted, the other one is inside at once, one level deeper.
func TestTwoGoroutinesOfOneOwnerWait(t *testing.T) {
	for _, fair := range []bool{false, true} {
		name := queueMode{"ReentrantLock", fair}.name()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueueBench(t, queueMode{"ReentrantLock", fair}, 3)
			var took []time.Duration
			for range 10 {
				h := q.take(q.clients[0])
				first := q.waitNext(as(t, "both"), 0, q.clients[1], WithPollInterval(leisure))
				stranger := q.waitNext(t.Context(), 1, q.clients[2], WithPollInterval(leisure))
				second := q.waitToo(as(t, "both"), 2, q.clients[1], WithPollInterval(leisure))
				q.awaitHeard(q.clients[1])
				start := time.Now()
				q.unlock(h)
				outer, inner := first.granted(), second.granted()
				took = append(took, testkit.Later(first.at, second.at).Sub(start))
				require.False(t, stranger.isOver(), "granted while another one has it")
				requireCount(t, q.server, q.clients[1], queueKey, 2)
				q.awaitQueued(1) // what the second one waited for is cancelled
				q.unlock(outer)
				time.Sleep(5 * time.Millisecond)
				require.NoError(t, inner.Err())
				require.False(t, stranger.isOver())
				q.unlock(inner)
				q.unlock(stranger.granted())
			}
			q.requireNothingLeft()
			t.Logf("median %v, longest %v", middle(took), took[len(took)-1])
			require.Less(t, middle(took), pushLimit)
		})
	}
}

// waitToo is waitNext for a client that waits already: where the lock is unfair, in memory.
func (q *queueBench) waitToo(ctx context.Context, n int, c *Client, opts ...LockOption) *waiting {
	q.Helper()
	if q.fair {
		return q.waitNext(ctx, n, c, opts...)
	}
	sat := c.waiting(q.key)
	w := q.wait(ctx, c, opts...)
	testkit.Eventually(q, testkit.Patience, func() bool { return c.waiting(q.key) == sat+1 && q.restsInRedis(c) }, "sits")
	return w
}

// The wait of the second goroutine may be the one that the lock is handed to, while the first has it already.
func TestOwnerIsGrantedWhatItsOtherGoroutineWaitedFor(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		if m.kind != "ReentrantLock" {
			return
		}
		q := newQueueBench(t, m, 2)
		h := q.take(q.clients[0])
		const goroutines = 20
		var all []*waiting
		for i := range goroutines {
			all = append(all, q.waitToo(ContextWithOwner(context.Background(), "all"), i, q.clients[1]))
		}
		q.unlock(h)
		for _, w := range all {
			w.granted()
		}
		requireCount(t, q.server, q.clients[1], queueKey, goroutines)
		q.awaitQueued(0)
		for _, w := range all {
			q.unlock(w.hold)
		}
		q.requireNothingLeft()
	})
}

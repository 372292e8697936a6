package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A lock with a minimum hold is not handed over before that ends; then the waiter has it soon.
func TestMinimumHoldIsNotHandedOver(t *testing.T) {
	t.Parallel()
	const keep = 1500 * time.Millisecond
	results := make(chan time.Duration, 100)
	var cells []cellRun
	for range 3 {
		for _, m := range queueModes() {
			cells = append(cells, cellRun{m.name(), func(t testing.TB) {
				q := newQueueBench(t, m, 2)
				start := time.Now()
				h := q.take(q.clients[0], WithMinHold(keep))
				granted := time.Now()
				w := q.waitNext(context.Background(), 0, q.clients[1])
				q.awaitHeard(q.clients[1])
				q.unlock(h)
				q.unlock(w.granted())
				took := w.at.Sub(start)
				t.Logf("%s: %v after the lock", m.name(), took)
				require.GreaterOrEqual(t, took, keep-2*time.Millisecond)
				require.Less(t, took, keep+3*time.Second)
				results <- w.at.Sub(granted) - keep
				q.requireNothingLeft()
			}})
		}
	}
	together(t, cells)
	close(results)
	var late []time.Duration
	for d := range results {
		late = append(late, d)
	}
	require.NotEmpty(t, late)
	t.Logf("after the end of the minimum hold: median %v, longest %v", middle(late), late[len(late)-1])
	require.Less(t, middle(late), 450*time.Millisecond, "the next poll would be later")
}

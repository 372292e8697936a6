package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
)

// A lock with a minimum hold is not handed over before that ends; then the waiter has it soon.
func TestMinimumHoldIsNotHandedOver(t *testing.T) {
	t.Parallel()
	const keep = 1500 * time.Millisecond
	results := make(chan time.Duration, 100)
	var cells []locktest.CellRun
	for range 3 {
		for _, m := range locktest.QueueModes() {
			cells = append(cells, locktest.CellRun{Name: m.Title(), Run: func(t testing.TB) {
				q := locktest.NewQueueBench(t, m, 2)
				start := time.Now()
				h := q.Take(q.Clients[0], relock.WithMinHold(keep))
				granted := time.Now()
				w := q.WaitNext(context.Background(), 0, q.Clients[1])
				q.AwaitHeard(q.Clients[1])
				q.Unlock(h)
				q.Unlock(w.Granted())
				took := w.At.Sub(start)
				t.Logf("%s: %v after the lock", m.Title(), took)
				require.GreaterOrEqual(t, took, keep-2*time.Millisecond)
				require.Less(t, took, keep+3*time.Second)
				results <- w.At.Sub(granted) - keep
				q.RequireNothingLeft()
			}})
		}
	}
	locktest.Together(t, cells)
	close(results)
	var late []time.Duration
	for d := range results {
		late = append(late, d)
	}
	require.NotEmpty(t, late)
	t.Logf("after the end of the minimum hold: median %v, longest %v", locktest.Middle(late), late[len(late)-1])
	require.Less(t, locktest.Middle(late), 450*time.Millisecond, "the next poll would be later")
}

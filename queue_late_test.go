package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// An enqueue that the network delivers after its cancel leaves nothing behind for longer than a second, be it a place in the queue or a
// hold that nobody wants.
func TestEnqueueThatComesAfterItsCancel(t *testing.T) {
	t.Parallel()
	s := newFaultServer(t)
	var cells []cellRun
	for name, action := range map[string]faults.Action{"held back": faults.HoldOnly, "held back and cut": faults.HoldAndCut} {
		for _, free := range []bool{false, true} {
			label := name + ", to a held lock"
			if free {
				label = name + ", to a free lock"
			}
			for _, m := range queueModes() {
				cells = append(cells, cellRun{label + ", " + m.name(), func(t testing.TB) {
					q := newQueueBenchOn(t, s, m, 1)
					proxy := faults.Start(t, s.Network, s.Address)
					c := sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.clients[0])
					enqueue := faults.Script(script.Enqueue.SHA)
					proxy.On(enqueue, 1, action)
					h := q.take(q.clients[0])
					ctx, cancel := context.WithCancel(t.Context())
					w := q.wait(ctx, c)
					require.True(t, proxy.Await(enqueue, 1, testkit.Patience))
					if action != faults.HoldOnly {
						q.awaitQueued(1)
					}
					cancel()
					require.ErrorIs(t, w.end(), context.Canceled)
					require.True(t, proxy.Await(faults.Script(script.Cancel.SHA), 1, testkit.Patience))
					q.awaitQueued(0)
					if free {
						q.unlock(h)
					}
					time.Sleep(100 * time.Millisecond)
					require.Len(t, proxy.Release(), 1)
					start := time.Now()
					q.awaitGone(free)
					t.Logf("%s: gone after %v", label, time.Since(start))
					require.Less(t, time.Since(start), 2500*time.Millisecond, "a second, and what a loaded machine may add")
					if !free {
						require.NoError(t, h.Err())
						q.unlock(h)
					}
					q.requireNothingLeft()
				}})
			}
		}
	}
	together(t, cells)
}

// awaitGone waits until nothing of the client's is in the queue, nor is the lock that was free.
func (q *queueBench) awaitGone(free bool) {
	q.Helper()
	keys := []any{q.key + ":q"}
	if free {
		keys = append(keys, q.key)
	}
	testkit.Eventually(q, testkit.Patience, func() bool { return q.server.Do(q, "EXISTS", keys...) == int64(0) }, "nothing of a wait that was given up")
}

package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// An enqueue that the network delivers after its cancel leaves nothing behind for longer than a second, be it a place in the queue or a
// hold that nobody wants.
func TestEnqueueThatComesAfterItsCancel(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for name, action := range map[string]faults.Action{"held back": faults.HoldOnly, "held back and cut": faults.HoldAndCut} {
		for _, free := range []bool{false, true} {
			label := name + ", to a held lock"
			if free {
				label = name + ", to a free lock"
			}
			for _, m := range locktest.QueueModes() {
				cells = append(cells, locktest.CellRun{Name: label + ", " + m.Title(), Run: func(t testing.TB) {
					q := locktest.NewQueueBenchOn(t, s, m, 1)
					proxy := faults.Start(t, s.Network, s.Address)
					c := locktest.Sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.Clients[0])
					enqueue := faults.Script(script.Enqueue.SHA)
					proxy.On(enqueue, 1, action)
					h := q.Take(q.Clients[0])
					ctx, cancel := context.WithCancel(t.Context())
					w := q.Wait(ctx, c)
					require.True(t, proxy.Await(enqueue, 1, testkit.Patience))
					if action != faults.HoldOnly {
						q.AwaitQueued(1)
					}
					cancel()
					require.ErrorIs(t, w.End(), context.Canceled)
					require.True(t, proxy.Await(faults.Script(script.Cancel.SHA), 1, testkit.Patience))
					q.AwaitQueued(0)
					if free {
						q.Unlock(h)
					}
					time.Sleep(100 * time.Millisecond)
					require.Len(t, proxy.Release(), 1)
					start := time.Now()
					q.AwaitGone(free)
					t.Logf("%s: gone after %v", label, time.Since(start))
					require.Less(t, time.Since(start), 2500*time.Millisecond, "a second, and what a loaded machine may add")
					if !free {
						require.NoError(t, h.Err())
						q.Unlock(h)
					}
					q.RequireNothingLeft()
				}})
			}
		}
	}
	locktest.Together(t, cells)
}

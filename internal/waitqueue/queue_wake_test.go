package waitqueue_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// A release wakes the waiter by a message: polls would take most of a second.
func TestWaiterIsWokenByTheRelease(t *testing.T) {
	t.Parallel()
	var cells []locktest.CellRun
	for _, m := range locktest.QueueModes() {
		for name, clients := range map[string]int{", the same client": 1, ", another client": 2} {
			cells = append(cells, locktest.CellRun{Name: m.Title() + name, Run: func(t testing.TB) {
				q := locktest.NewQueueBench(t, m, clients)
				holder, waiter := q.Clients[0], q.Clients[clients-1]
				var took []time.Duration
				for range 15 {
					h := q.Take(holder)
					w := q.WaitNext(t.Context(), 0, waiter, relock.WithPollInterval(locktest.Leisure))
					q.AwaitHeard(waiter)
					time.Sleep(rand.N(30 * time.Millisecond)) // of both sorts: only woken, and reserved for
					next, d := q.HandOver(h, w)
					took = append(took, d)
					q.Unlock(next)
				}
				q.RequireNothingLeft()
				t.Logf("median %v, longest %v", locktest.Middle(took), took[len(took)-1])
				require.Less(t, locktest.Middle(took), locktest.PushLimit)
			}})
		}
	}
	locktest.Together(t, cells)
}

// Two clients that always want the lock take turns, by messages: strictly where it is fair.
func TestHandOffBetweenTwoClients(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		const turns = 50
		q := locktest.NewQueueBench(t, m, 2)
		var mu sync.Mutex
		var order []int
		var took []time.Duration
		var unlocked time.Time
		var group sync.WaitGroup
		for i, c := range q.Clients {
			group.Go(func() {
				lock := q.Lock(c, relock.WithPollInterval(locktest.Leisure))
				for range turns / 2 {
					h, err := lock.Acquire(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if order = append(order, i); len(order) > 1 {
						took = append(took, time.Since(unlocked))
					}
					mine := 0
					for _, n := range order {
						if n == i {
							mine++
						}
					}
					last := len(order)-mine >= turns/2 // the other one has had all its turns
					mu.Unlock()
					for end := time.Now().Add(testkit.Patience); !last && q.InQueue() == 0 && time.Now().Before(end); {
						time.Sleep(time.Millisecond)
					}
					mu.Lock()
					unlocked = time.Now()
					mu.Unlock()
					if err := h.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		require.Len(t, order, turns)
		q.RequireNothingLeft()
		t.Logf("median %v, longest %v", locktest.Middle(took), took[len(took)-1])
		require.Less(t, locktest.Middle(took), locktest.PushLimit)
		for n := 1; m.Fair && n < len(order); n++ {
			require.NotEqual(t, order[n-1], order[n], "turn %d", n)
		}
	})
}

package relock

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/testkit"
)

// A release wakes the waiter by a message: polls would take most of a second.
func TestWaiterIsWokenByTheRelease(t *testing.T) {
	t.Parallel()
	var cells []cellRun
	for _, m := range queueModes() {
		for name, clients := range map[string]int{", the same client": 1, ", another client": 2} {
			cells = append(cells, cellRun{m.name() + name, func(t testing.TB) {
				q := newQueueBench(t, m, clients)
				holder, waiter := q.clients[0], q.clients[clients-1]
				var took []time.Duration
				for range 15 {
					h := q.take(holder)
					w := q.waitNext(t.Context(), 0, waiter, WithPollInterval(leisure))
					q.awaitHeard(waiter)
					time.Sleep(rand.N(30 * time.Millisecond)) // of both sorts: only woken, and reserved for
					next, d := q.handOver(h, w)
					took = append(took, d)
					q.unlock(next)
				}
				q.requireNothingLeft()
				t.Logf("median %v, longest %v", middle(took), took[len(took)-1])
				require.Less(t, middle(took), pushLimit)
			}})
		}
	}
	together(t, cells)
}

// Two clients that always want the lock take turns, by messages: strictly where it is fair.
func TestHandOffBetweenTwoClients(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		const turns = 50
		q := newQueueBench(t, m, 2)
		var mu sync.Mutex
		var order []int
		var took []time.Duration
		var unlocked time.Time
		var group sync.WaitGroup
		for i, c := range q.clients {
			group.Go(func() {
				lock := q.lock(c, WithPollInterval(leisure))
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
					for end := time.Now().Add(testkit.Patience); !last && q.inQueue() == 0 && time.Now().Before(end); {
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
		q.requireNothingLeft()
		t.Logf("median %v, longest %v", middle(took), took[len(took)-1])
		require.Less(t, middle(took), pushLimit)
		for n := 1; m.fair && n < len(order); n++ {
			require.NotEqual(t, order[n-1], order[n], "turn %d", n)
		}
	})
}

package relock

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// The subscriptions are cut again and again while the lock goes round: nobody sleeps for ever. Most hand-overs wait for a poll here, and
// 200 of them are timed: no other test runs beside this one.
func TestSubscriptionsAreCutDuringHandOvers(t *testing.T) {
	eachModeAlone(t, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 4)
		done := make(chan struct{})
		var killer, group sync.WaitGroup
		killer.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(15 * time.Millisecond):
					q.server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
				}
			}
		})
		total, start := 0, time.Now()
		for i := range 8 {
			lock := q.lock(q.clients[i%4])
			group.Go(func() {
				for range 25 {
					err := lock.Do(context.Background(), func(context.Context) error {
						total++
						time.Sleep(time.Millisecond)
						return nil
					})
					if err != nil {
						t.Errorf("lock: %v", err)
						return
					}
				}
			})
		}
		group.Wait()
		close(done)
		killer.Wait()
		require.Equal(t, 200, total)
		t.Logf("%d hand-overs in %v", total, time.Since(start))
		require.Less(t, time.Since(start), testkit.Patience)
		q.requireNothingLeft()
	})
}

// A waiter whose wake-up is missed looks again when its subscription is cut, not when its poll is due.
func TestWaiterLooksAgainAfterItsSubscriptionWasCut(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		const far = 6 * time.Second // the poll interval
		q := newQueueBench(t, m, 2)
		var took []time.Duration
		for range 5 {
			h := q.take(q.clients[0], WithExpiry(time.Minute))
			w := q.waitNext(t.Context(), 0, q.clients[1], WithPollInterval(far))
			q.awaitHeard(q.clients[1])
			q.server.Do(t, "DEL", q.key) // nobody is told
			start := time.Now()
			q.server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			next := w.granted()
			took = append(took, w.at.Sub(start))
			q.unlock(next)
			require.Error(t, h.Unlock(t.Context()))
			testkit.Eventually(t, testkit.Patience, func() bool { return feedIsUp(q.clients[1]) }, "subscribed again")
		}
		t.Logf("median %v, longest %v", middle(took), took[len(took)-1])
		require.Less(t, middle(took), far/4)
	})
}

// feedIsUp says whether the client's subscription is confirmed.
func feedIsUp(c *Client) bool {
	return c.engine.Queue.State().Subscribed
}

// A subscription over which nothing comes, without being cut: the waiters learn of their turn by polls, and after a while the client gets
// itself another one.
func TestSilentSubscription(t *testing.T) {
	t.Parallel()
	s := newFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	q := newQueueBenchOn(t, s, queueMode{"RedisLock", true}, 1)
	proxy.On(faults.Command("SUBSCRIBE"), 1, faults.ThenSilent)
	deaf := sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.clients[0])
	h := q.take(q.clients[0])
	w := q.waitNext(t.Context(), 0, deaf)
	q.awaitHeard(deaf)
	next, d := q.handOver(h, w)
	t.Logf("granted after %v", d)
	require.Less(t, d, 3*time.Second, "by a poll, before the reservation has ended")
	w = q.waitNext(t.Context(), 0, q.clients[0])
	again := q.waitNext(t.Context(), 1, deaf)
	require.True(t, proxy.Await(faults.Command("SUBSCRIBE"), 2, testkit.Patience), "subscribed anew")
	q.unlock(next)
	q.unlock(w.granted())
	q.unlock(again.granted())
	q.requireNothingLeft()
}

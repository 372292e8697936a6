package waitqueue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// The subscriptions are cut again and again while the lock goes round: nobody sleeps for ever. Most hand-overs wait for a poll here, and
// 200 of them are timed: no other test runs beside this one.
func TestSubscriptionsAreCutDuringHandOvers(t *testing.T) {
	locktest.EachModeAlone(t, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 4)
		done := make(chan struct{})
		var killer, group sync.WaitGroup
		killer.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(15 * time.Millisecond):
					q.Server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
				}
			}
		})
		total, start := 0, time.Now()
		for i := range 8 {
			lock := q.Lock(q.Clients[i%4])
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
		q.RequireNothingLeft()
	})
}

// A waiter whose wake-up is missed looks again when its subscription is cut, not when its poll is due.
func TestWaiterLooksAgainAfterItsSubscriptionWasCut(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		const far = 6 * time.Second // the poll interval
		q := locktest.NewQueueBench(t, m, 2)
		var took []time.Duration
		for range 5 {
			h := q.Take(q.Clients[0], relock.WithExpiry(time.Minute))
			w := q.WaitNext(t.Context(), 0, q.Clients[1], relock.WithPollInterval(far))
			q.AwaitHeard(q.Clients[1])
			q.Server.Do(t, "DEL", q.Key) // nobody is told
			start := time.Now()
			q.Server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			next := w.Granted()
			took = append(took, w.At.Sub(start))
			q.Unlock(next)
			require.Error(t, h.Unlock(t.Context()))
			testkit.Eventually(t, testkit.Patience, func() bool { return feedIsUp(q.Clients[1]) }, "subscribed again")
		}
		t.Logf("median %v, longest %v", locktest.Middle(took), took[len(took)-1])
		require.Less(t, locktest.Middle(took), far/4)
	})
}

// feedIsUp says whether the client's subscription is confirmed.
func feedIsUp(c *relock.Client) bool {
	return locktest.Engine(c).Queue.State().Subscribed
}

// A subscription over which nothing comes, without being cut: the waiters learn of their turn by polls, and after a while the client gets
// itself another one.
func TestSilentSubscription(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	q := locktest.NewQueueBenchOn(t, s, locktest.QueueMode{Kind: "RedisLock", Fair: true}, 1)
	proxy.On(faults.Command("SUBSCRIBE"), 1, faults.ThenSilent)
	deaf := locktest.Sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.Clients[0])
	h := q.Take(q.Clients[0])
	w := q.WaitNext(t.Context(), 0, deaf)
	q.AwaitHeard(deaf)
	next, d := q.HandOver(h, w)
	t.Logf("granted after %v", d)
	require.Less(t, d, 3*time.Second, "by a poll, before the reservation has ended")
	w = q.WaitNext(t.Context(), 0, q.Clients[0])
	again := q.WaitNext(t.Context(), 1, deaf)
	require.True(t, proxy.Await(faults.Command("SUBSCRIBE"), 2, testkit.Patience), "subscribed anew")
	q.Unlock(next)
	q.Unlock(w.Granted())
	q.Unlock(again.Granted())
	q.RequireNothingLeft()
}

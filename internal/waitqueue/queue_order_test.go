package waitqueue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// A fair lock is granted in the order of arrival, over several clients.
func TestFairLockKeepsTheOrderOfArrival(t *testing.T) {
	locktest.EachKind(t, true, func(t testing.TB, m locktest.QueueMode) {
		const waiters = 100
		q := locktest.NewQueueBench(t, m, 4)
		h := q.Take(q.Clients[0])
		var order []int // guarded by the lock
		results := make([]<-chan error, waiters)
		for i := range waiters {
			lock := q.Lock(q.Clients[i%4], relock.WithPollInterval(locktest.Leisure))
			results[i] = q.Async(context.Background(), func(ctx context.Context) error {
				return lock.Do(ctx, func(context.Context) error {
					order = append(order, i)
					return nil
				})
			})
			q.AwaitQueued(i + 1)
		}
		start := time.Now()
		q.Unlock(h)
		for _, result := range results {
			require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
		}
		t.Logf("%d hand-overs, %v each", waiters, time.Since(start)/waiters)
		for i, n := range order {
			require.Equal(t, i, n, "order: %v", order)
		}
		require.Len(t, order, waiters)
		q.RequireNothingLeft()
	})
}

// Many waiters of one client are all served, over a handful of connections.
func TestManyWaitersOfOneClient(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		const waiters = 300
		q := locktest.NewQueueBench(t, m, 1)
		other := locktest.Sibling(t, q.Server, q.Clients[0])
		h := q.Take(other)
		connections := func() int64 { return scripttest.InfoField(t, q.Server, "clients", "connected_clients") }
		before, most := connections(), int64(0)
		served, inside := 0, false
		var group sync.WaitGroup
		begin := make(chan struct{})
		for range waiters {
			lock := q.Lock(q.Clients[0])
			group.Go(func() {
				<-begin
				err := lock.Do(context.Background(), func(context.Context) error {
					if inside {
						t.Error("two at once")
					}
					inside = true
					served++
					inside = false
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		close(begin)
		testkit.Eventually(t, testkit.Patience, func() bool {
			most = max(most, connections())
			return q.InQueue() == q.InRedis(waiters, 1) && (q.InQueue() == waiters || locktest.WaitingIn(q.Clients[0], q.Key) == waiters)
		}, "all in the queue")
		start := time.Now()
		q.Unlock(h)
		for over := false; !over; {
			select {
			case <-done:
				over = true
			case <-time.After(5 * time.Millisecond):
				most = max(most, connections())
				require.Less(t, time.Since(start), testkit.Patience, "not all are served")
			}
		}
		require.Equal(t, waiters, served)
		t.Logf("%v for each; %d connections at most", time.Since(start)/waiters, most-before)
		require.LessOrEqual(t, most-before, int64(40), "32 that send, and those of the client's own")
		q.RequireNothingLeft()
	})
}

// Goroutines that share one fair object get the lock in the order of their calls.
func TestSharedFairObjectKeepsTheOrder(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.QueueMode{Kind: "RedisLock", Fair: true}, 1)
	lock := q.Lock(q.Clients[0])
	h := q.Take(q.Clients[0])
	var order []int // guarded by the lock
	var results []<-chan error
	for i := range 8 {
		results = append(results, q.Async(context.Background(), func(ctx context.Context) error {
			return lock.Do(ctx, func(context.Context) error {
				order = append(order, i)
				return nil
			})
		}))
		q.AwaitQueued(i + 1)
	}
	q.Unlock(h)
	for _, result := range results {
		require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
	}
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, order)
	q.RequireNothingLeft()
}

package relock

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// A fair lock is granted in the order of arrival, over several clients.
func TestFairLockKeepsTheOrderOfArrival(t *testing.T) {
	eachKind(t, true, func(t testing.TB, m queueMode) {
		const waiters = 100
		q := newQueueBench(t, m, 4)
		h := q.take(q.clients[0])
		var order []int // guarded by the lock
		results := make([]<-chan error, waiters)
		for i := range waiters {
			lock := q.lock(q.clients[i%4], WithPollInterval(leisure))
			results[i] = q.async(context.Background(), func(ctx context.Context) error {
				return lock.Do(ctx, func(context.Context) error {
					order = append(order, i)
					return nil
				})
			})
			q.awaitQueued(i + 1)
		}
		start := time.Now()
		q.unlock(h)
		for _, result := range results {
			require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
		}
		t.Logf("%d hand-overs, %v each", waiters, time.Since(start)/waiters)
		for i, n := range order {
			require.Equal(t, i, n, "order: %v", order)
		}
		require.Len(t, order, waiters)
		q.requireNothingLeft()
	})
}

// Many waiters of one client are all served, over a handful of connections.
func TestManyWaitersOfOneClient(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		const waiters = 300
		q := newQueueBench(t, m, 1)
		other := sibling(t, q.server, q.clients[0])
		h := q.take(other)
		connections := func() int64 { return scripttest.InfoField(t, q.server, "clients", "connected_clients") }
		before, most := connections(), int64(0)
		served, inside := 0, false
		var group sync.WaitGroup
		begin := make(chan struct{})
		for range waiters {
			lock := q.lock(q.clients[0])
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
			return q.inQueue() == q.inRedis(waiters, 1) && (q.inQueue() == waiters || q.clients[0].waiting(q.key) == waiters)
		}, "all in the queue")
		start := time.Now()
		q.unlock(h)
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
		q.requireNothingLeft()
	})
}

// Goroutines that share one fair object get the lock in the order of their calls.
func TestSharedFairObjectKeepsTheOrder(t *testing.T) {
	t.Parallel()
	q := newQueueBench(t, queueMode{"RedisLock", true}, 1)
	lock := q.lock(q.clients[0])
	h := q.take(q.clients[0])
	var order []int // guarded by the lock
	var results []<-chan error
	for i := range 8 {
		results = append(results, q.async(context.Background(), func(ctx context.Context) error {
			return lock.Do(ctx, func(context.Context) error {
				order = append(order, i)
				return nil
			})
		}))
		q.awaitQueued(i + 1)
	}
	q.unlock(h)
	for _, result := range results {
		require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
	}
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, order)
	q.requireNothingLeft()
}

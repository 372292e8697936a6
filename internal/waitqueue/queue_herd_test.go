package waitqueue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// One unlock wakes one waiter, however many there are.
func TestUnlockWakesOneWaiter(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		const waiters, clients = 200, 4
		q := locktest.NewQueueBench(t, m, clients+1)
		h := q.Take(q.Clients[0])
		ctx, cancel := context.WithCancel(t.Context())
		granted := make(chan relock.Hold, waiters)
		for i := range waiters {
			lock := q.Lock(q.Clients[1+i%clients], relock.WithPollInterval(locktest.Leisure))
			q.Async(ctx, func(ctx context.Context) error {
				if hold, err := lock.Acquire(ctx); err == nil {
					granted <- hold
				}
				return nil
			})
		}
		q.AwaitQueued(q.InRedis(waiters, clients))
		for _, c := range q.Clients[1:] {
			q.AwaitHeard(c)
		}
		time.Sleep(100 * time.Millisecond) // for the first polls
		q.Server.Do(t, "CONFIG", "RESETSTAT")
		start := time.Now()
		q.Unlock(h)
		hold := <-granted
		time.Sleep(150 * time.Millisecond)
		got := locktest.Calls(t, q.Server, "evalsha")
		polls := clients * (1 + int(time.Since(start)/locktest.Leisure))
		t.Logf("%d scripts in %v", got, time.Since(start))
		require.LessOrEqual(t, got, 2+2*polls, "the release, a claim, and polls")
		cancel()
		q.Unlock(hold)
		q.RequireNothingLeft()
	})
}

// The waits for many locks share one subscription, which ends with the client.
func TestOneSubscriptionForManyLocks(t *testing.T) {
	t.Parallel()
	const locks, waiters = 100, 5
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	other := locktest.Sibling(t, s, c)
	q := &locktest.QueueBench{TB: t, Server: s}
	ctx, cancel := context.WithCancel(t.Context())
	var holds []relock.Hold
	var results []<-chan error
	for i := range locks {
		name := fmt.Sprint("lock", i)
		h, err := relock.NewRedisLock(name, other, relock.WithFair()).TryAcquire(t.Context())
		require.NoError(t, err)
		holds = append(holds, h)
		for range waiters {
			lock := relock.NewRedisLock(name, c, relock.WithBlock(), relock.WithFair())
			results = append(results, q.Async(ctx, func(ctx context.Context) error { return lock.Do(ctx, locktest.NoWork) }))
		}
	}
	queued := func() (n int) {
		for i := range locks {
			in, err := redis.Int(s.Do(t, "ZCARD", locktest.KeyOf(c, fmt.Sprint("lock", i))+":q"), nil)
			require.NoError(t, err)
			n += in
		}
		return n
	}
	testkit.Eventually(t, testkit.Patience, func() bool { return queued() == locks*waiters }, "all in their queues")
	subscribed, err := redis.String(s.Do(t, "CLIENT", "LIST", "TYPE", "pubsub"), nil)
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(subscribed, "id="), 1, subscribed)
	for _, h := range holds {
		q.Unlock(h)
	}
	for _, result := range results {
		require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
	}
	require.Zero(t, queued())
	cancel()
	require.NoError(t, c.Close())
	testkit.Eventually(t, testkit.Patience, func() bool {
		channels, err := redis.Strings(s.Do(t, "PUBSUB", "CHANNELS"), nil)
		require.NoError(t, err)
		return len(channels) == 0
	}, "no subscription is left")
}

// What ends all waits of a client at once does not make it open a connection for each.
func TestManyWaitersEndOverAHandfulOfConnections(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		const waiters = 300
		q := locktest.NewQueueBench(t, m, 1, relock.WithMaxIdle(2*waitqueue.MaxSending))
		locktest.Engine(q.Clients[0]).Driver.(*driver.Pool).Apart = waiters // else they share one
		q.Server.Do(t, "SET", q.Key, "relock/1|"+map[bool]string{true: "f", false: "p"}[m.Fair]+"|somebody", "PX", 600000)
		if m.Kind == "ReentrantLock" {
			q.Server.Do(t, "DEL", q.Key)
			q.Server.Do(t, "HSET", q.Key, "hold", "somebody", "seq", "#1", "somebody:g:1", 1)
			if m.Fair {
				q.Server.Do(t, "HSET", q.Key, "mode", "f")
			}
			q.Server.Do(t, "PEXPIRE", q.Key, 600000)
		}
		var all []*locktest.Waiting
		for range waiters {
			all = append(all, q.Wait(context.Background(), q.Clients[0]))
		}
		q.AwaitQueued(q.InRedis(waiters, 1))
		q.AwaitHeard(q.Clients[0])
		before := scripttest.InfoField(t, q.Server, "stats", "total_connections_received")
		const replace = "redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], 'x')"
		q.Server.Do(t, "EVAL", replace, 1, q.Key)
		for _, w := range all {
			require.ErrorIs(t, w.End(), relock.ErrKeyConflict)
		}
		opened := scripttest.InfoField(t, q.Server, "stats", "total_connections_received") - before
		t.Logf("%d connections opened", opened)
		require.LessOrEqual(t, opened, int64(2*waitqueue.MaxSending), "connections")
	})
}

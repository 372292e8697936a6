package relock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// One unlock wakes one waiter, however many there are.
func TestUnlockWakesOneWaiter(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		const waiters, clients = 200, 4
		q := newQueueBench(t, m, clients+1)
		h := q.take(q.clients[0])
		ctx, cancel := context.WithCancel(t.Context())
		granted := make(chan Hold, waiters)
		for i := range waiters {
			lock := q.lock(q.clients[1+i%clients], WithPollInterval(leisure))
			q.async(ctx, func(ctx context.Context) error {
				if hold, err := lock.Acquire(ctx); err == nil {
					granted <- hold
				}
				return nil
			})
		}
		q.awaitQueued(q.inRedis(waiters, clients))
		for _, c := range q.clients[1:] {
			q.awaitHeard(c)
		}
		time.Sleep(100 * time.Millisecond) // for the first polls
		q.server.Do(t, "CONFIG", "RESETSTAT")
		start := time.Now()
		q.unlock(h)
		hold := <-granted
		time.Sleep(150 * time.Millisecond)
		got := calls(t, q.server, "evalsha")
		polls := clients * (1 + int(time.Since(start)/leisure))
		t.Logf("%d scripts in %v", got, time.Since(start))
		require.LessOrEqual(t, got, 2+2*polls, "the release, a claim, and polls")
		cancel()
		q.unlock(hold)
		q.requireNothingLeft()
	})
}

// The waits for many locks share one subscription, which ends with the client.
func TestOneSubscriptionForManyLocks(t *testing.T) {
	t.Parallel()
	const locks, waiters = 100, 5
	s := redistest.Start(t)
	c := newTestClient(t, s)
	other := sibling(t, s, c)
	q := &queueBench{TB: t, server: s}
	ctx, cancel := context.WithCancel(t.Context())
	var holds []Hold
	var results []<-chan error
	for i := range locks {
		name := fmt.Sprint("lock", i)
		h, err := NewRedisLock(name, other, WithFair()).TryAcquire(t.Context())
		require.NoError(t, err)
		holds = append(holds, h)
		for range waiters {
			lock := NewRedisLock(name, c, WithBlock(), WithFair())
			results = append(results, q.async(ctx, func(ctx context.Context) error { return lock.Do(ctx, noWork) }))
		}
	}
	queued := func() (n int) {
		for i := range locks {
			in, err := redis.Int(s.Do(t, "ZCARD", keyOf(c, fmt.Sprint("lock", i))+":q"), nil)
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
		q.unlock(h)
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
	eachMode(t, func(t testing.TB, m queueMode) {
		const waiters = 300
		q := newQueueBench(t, m, 1, WithMaxIdle(2*waitqueue.MaxSending))
		q.clients[0].engine.Driver.(*driver.Pool).Apart = waiters // else they share one
		q.server.Do(t, "SET", q.key, "relock/1|"+map[bool]string{true: "f", false: "p"}[m.fair]+"|somebody", "PX", 600000)
		if m.kind == "ReentrantLock" {
			q.server.Do(t, "DEL", q.key)
			q.server.Do(t, "HSET", q.key, "hold", "somebody", "seq", "#1", "somebody:g:1", 1)
			if m.fair {
				q.server.Do(t, "HSET", q.key, "mode", "f")
			}
			q.server.Do(t, "PEXPIRE", q.key, 600000)
		}
		var all []*waiting
		for range waiters {
			all = append(all, q.wait(context.Background(), q.clients[0]))
		}
		q.awaitQueued(q.inRedis(waiters, 1))
		q.awaitHeard(q.clients[0])
		before := scripttest.InfoField(t, q.server, "stats", "total_connections_received")
		const replace = "redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], 'x')"
		q.server.Do(t, "EVAL", replace, 1, q.key)
		for _, w := range all {
			require.ErrorIs(t, w.end(), ErrKeyConflict)
		}
		opened := scripttest.InfoField(t, q.server, "stats", "total_connections_received") - before
		t.Logf("%d connections opened", opened)
		require.LessOrEqual(t, opened, int64(2*waitqueue.MaxSending), "connections")
	})
}

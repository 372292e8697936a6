package waitqueue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The subscriptions are cut again and again while the lock goes round: no
// waiter sleeps for ever. Most hand-offs wait for a poll here.
func TestSubscriptionsAreCutDuringHandOffs(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		const goroutines, turns = 8, 6
		q := locktest.NewQueueBench(t, m, 4)
		var served atomic.Int64
		var results []<-chan error
		for i := range goroutines {
			lock := q.Lock(q.Clients[i%4])
			results = append(results, async(q, lock, turns, func() {
				served.Add(1)
				time.Sleep(time.Millisecond)
			}))
		}
		testkit.Eventually(t, testkit.Patience, func() bool {
			time.Sleep(15 * time.Millisecond)
			q.Server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			return served.Load() == goroutines*turns
		}, "all are served")
		testkit.AllWithin(t, results, testkit.Patience)
		q.RequireNothingLeft()
	})
}

// A waiter whose wake-up is missed tries again when its subscription is cut,
// not when its poll is due.
func TestWaiterTriesAgainAfterItsSubscriptionWasCut(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		const far = 6 * time.Second // the poll interval
		q := locktest.NewQueueBench(t, m, 2)
		var took []time.Duration
		for range 5 {
			h := q.Take(q.Clients[0], relock.WithExpiry(time.Minute))
			w := q.WaitSubscribed(0, q.Clients[1], relock.WithPollInterval(far))
			q.Server.Do(t, "DEL", q.Key) // without a message
			watch := testkit.NewStopwatch(t)
			q.Server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			next := w.Granted()
			took = append(took, watch.Net())
			q.Unlock(next)
			require.Error(t, h.Unlock(t.Context()))
			testkit.Eventually(t, testkit.Patience, func() bool {
				return locktest.Engine(q.Clients[1]).Queue.State().Subscribed
			}, "subscribed again")
		}
		requireMedian(t, took, far/4)
	})
}

// Waiting calls for RedLocks try again when a subscription comes, and when it
// goes: what happened before reached no call.
func TestSubscriptionNotifiesQuorumCalls(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.PlainFair, 1)
	c, proxy := q.Behind()
	h := q.Take(q.Clients[0])
	notified := make(chan struct{}, 10)
	queue := locktest.Engine(c).Queue
	queue.Listen(q.Key, "name", func() { notified <- struct{}{} })
	defer queue.Unlisten("name")
	w := q.WaitNext(t.Context(), 0, c) // it makes the client subscribe
	_, ok := testkit.Await(notified, testkit.Patience)
	require.True(t, ok, "not notified of the subscription")
	proxy.Refuse()
	_, ok = testkit.Await(notified, testkit.Patience)
	require.True(t, ok, "not notified of the loss")
	proxy.Accept()
	next, _ := q.HandOff(h, w)
	q.Unlock(next)
}

// A subscription is silent without being cut: waiters learn of their turn by
// polls. After a while, the client subscribes again.
func TestSilentSubscription(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.PlainFair, 1)
	deaf, proxy := q.Behind()
	proxy.On(faults.Command("SUBSCRIBE"), 1, faults.ThenSilent)
	h := q.Take(q.Clients[0])
	w := q.WaitSubscribed(0, deaf)
	watch := testkit.NewStopwatch(t)
	next, _ := q.HandOff(h, w)
	watch.Within(2*time.Second, "by a poll, before the reservation has ended")
	w = q.WaitNext(t.Context(), 0, q.Clients[0])
	again := q.WaitNext(t.Context(), 1, deaf)
	require.True(t, proxy.Await(faults.Command("SUBSCRIBE"), 2, testkit.Patience), "subscribed anew")
	q.Unlock(next)
	q.Unlock(w.Granted())
	q.UnlockLast(again.Granted())
}

// Without permission to subscribe or to publish, waiters poll at their poll
// interval, and the log has one line about it.
func TestWaitersWithoutMessages(t *testing.T) {
	locktest.EachCase(t, locktest.QueueModes, map[string][]any{
		"no channel":             {"~*", "+@all", "resetchannels"},
		"no channel, no publish": {"~*", "+@all", "-publish", "resetchannels"},
		"no subscribe":           {"~*", "&*", "+@all", "-subscribe"},
		"no publish":             {"~*", "&*", "+@all", "-publish"},
	}, func(t testing.TB, m mode, rules []any) {
		var log locktest.LogBuffer
		q := locktest.NewQueueBench(t, m, 1)
		c := asUser(q, rules, log.Option())
		took := handOffs(q, 7, c, c, 100*time.Millisecond, func() {})
		requireMedian(t, took, 500*time.Millisecond)
		require.Equal(t, 1, strings.Count(log.String(), "waiters poll"), log.String())
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	})
}

// Waiters never poll faster than their poll interval.
func TestPollIsNeverFaster(t *testing.T) {
	t.Parallel()
	const poll = 40 * time.Millisecond
	q := locktest.NewQueueBench(t, locktest.PlainUnfair, 1)
	deaf := asUser(q, []any{"~*", "&*", "+@all", "-subscribe"}, relock.WithPollInterval(poll))
	h := q.Take(q.Clients[0])
	q.Server.Do(t, "CONFIG", "RESETSTAT")
	start, watch := time.Now(), testkit.NewStopwatch(t)
	w := q.Wait(t.Context(), deaf)
	polls := 0
	testkit.Eventually(t, testkit.Patience, func() bool {
		polls = locktest.Calls(t, q.Server, "evalsha")
		return polls >= 25
	}, "polls")
	watch.Within(100*poll, "without a subscription, it polls at the interval")
	require.LessOrEqual(t, polls, 1+int(time.Since(start)/poll))
	q.Unlock(h)
	q.Unlock(w.Granted())
}

// scriptsOf returns how many scripts the slow log of the server has, without
// cancels: those of an entry are repeated while a poll that lists it is under
// way, which a busy machine decides.
func scriptsOf(t testing.TB, q *bench) (n int) {
	all, err := redis.SlowLogs(q.Server.Do(t, "SLOWLOG", "GET", 100000), nil)
	require.NoError(t, err)
	cancels := []string{script.Cancel.SHA, script.RWCancel.SHA}
	for _, one := range all {
		if strings.HasPrefix(one.Args[0], "EVAL") && !slices.Contains(cancels, one.Args[1]) {
			n++
		}
	}
	return n
}

// awaitPolls waits until the client has shown n times that it lives.
func awaitPolls(q *locktest.QueueBench, c *relock.Client, n int) {
	q.Helper()
	heartbeat := func() string {
		text, _ := redis.String(q.Server.Do(q, "HGET", q.Key+":b", locktest.Engine(c).Identity.ID), nil)
		return text
	}
	for last := heartbeat(); n > 0; n-- {
		testkit.Eventually(q, testkit.Patience, func() bool { return heartbeat() != last }, "it polls")
		last = heartbeat()
	}
}

// The waiters for many locks share one subscription, which ends with the
// client.
func TestOneSubscriptionForManyLocks(t *testing.T) {
	t.Parallel()
	const locks, waiters = 100, 5
	q := locktest.NewQueueBench(t, locktest.PlainFair, 2)
	c := q.Clients[1]
	var holds []relock.Hold
	var results []<-chan error
	for i := range locks {
		name := fmt.Sprint("lock", i)
		holds = append(holds, locktest.Take(t, relock.NewRedisLock(name, q.Clients[0], relock.WithFair()).TryAcquire))
		for range waiters {
			results = append(results,
				async(q, relock.NewRedisLock(name, c, relock.WithBlock(), relock.WithFair()), 1, func() {}))
		}
	}
	const count = "local n = 0 for _, k in ipairs(redis.call('KEYS', '*:q')) do n = n + redis.call('ZCARD', " +
		"k) end return n"
	queued := func() any { return q.Server.Do(t, "EVAL", count, 0) }
	testkit.Eventually(t, testkit.Patience, func() bool { return queued() == int64(locks*waiters) }, "all in their queues")
	require.LessOrEqual(t, listeners(q, c), int64(1))
	for _, h := range holds {
		q.Unlock(h)
	}
	testkit.AllWithin(t, results, testkit.Patience)
	require.Zero(t, queued())
	require.NoError(t, c.Close())
	testkit.Eventually(t, testkit.Patience, func() bool { return listeners(q, c) == 0 }, "no subscription is left")
}

// However many calls wait, a client polls for a lock once a second, and has one
// subscription. One unlock wakes one waiter.
func TestWaitersAreIdle(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		const waiters, clients, idle = 200, 4, 2 * time.Second
		q := locktest.NewQueueBench(t, m, 1+clients)
		h := q.Take(q.Clients[0])
		ctx, cancel := context.WithCancel(t.Context())
		granted := make(chan relock.Hold, waiters)
		for i := range waiters {
			lock := q.Lock(q.Clients[1+i%clients])
			q.Async(ctx, func(ctx context.Context) error {
				if hold, err := lock.Acquire(ctx); err == nil {
					granted <- hold
				}
				return nil
			})
		}
		q.AwaitQueued(q.EntriesOf(waiters, clients))
		for _, c := range q.Clients[1:] {
			q.AwaitSubscribed(c)
			awaitPolls(q, c, 2) // one comes with the subscription, the others a period after each other
		}
		q.Server.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 100000)
		requireScripts := func(wait func(), least, more int) {
			q.Server.Do(t, "SLOWLOG", "RESET")
			start, got := time.Now(), 0
			wait()
			testkit.Eventually(t, testkit.Patience, func() bool {
				got = scriptsOf(t, q)
				return got >= least
			}, "scripts")
			require.LessOrEqual(t, got, clients*(1+int(time.Since(start)/time.Second))+more)
		}
		requireScripts(func() { time.Sleep(idle) }, clients, 0) // each client shows that it lives
		channels, err := redis.Strings(q.Server.Do(t, "PUBSUB", "CHANNELS"), nil)
		require.NoError(t, err)
		require.Len(t, channels, clients)
		var hold relock.Hold
		requireScripts(func() {
			q.Unlock(h)
			hold = <-granted
			time.Sleep(150 * time.Millisecond) // for what should not happen
		}, 2, 2+clients) // the release, a claim, and polls
		cancel()
		q.UnlockLast(hold)
	})
}

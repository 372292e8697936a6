package waitqueue_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// newShardedBench returns a bench whose two clients use sharded channels.
func newShardedBench(t testing.TB, s *redistest.Server, m mode) *bench {
	p := locktest.NewTopology(false, s).Sharded()
	q := &bench{TB: t, QueueMode: m, Server: s, Clients: []*relock.Client{p.Client(t), p.Client(t)}}
	q.Key = locktest.KeyOf(q.Clients[0], locktest.QueueKey)
	return q
}

// startWithout starts a server that denies some commands.
func startWithout(t testing.TB, rules ...any) *redistest.Server {
	s := redistest.Start(t)
	s.Do(t, "ACL", append([]any{"SETUSER", "default"}, rules...)...)
	return s
}

// shardChannels returns the sharded channels that clients listen to at a
// server.
func shardChannels(t testing.TB, s *redistest.Server) []string {
	t.Helper()
	all, err := redis.Strings(s.Do(t, "PUBSUB", "SHARDCHANNELS"), nil)
	require.NoError(t, err)
	return all
}

// sharded returns the sharded channel of a client for the lock.
func sharded(q *bench, c *relock.Client) string { return q.Key + ":" + locktest.Engine(c).Identity.ID }

// handOffsCost hands the lock off between two clients, and returns how often
// the server ran each command for that, and how many polls were due.
func handOffsCost(q *bench, times int, commands ...string) map[string]int {
	q.Helper()
	pair := func() {
		for i := range 2 {
			took := handOff(q, q.Take(q.Clients[i]),
				q.Clients[1-i], locktest.SlowPoll, func() { q.AwaitSubscribed(q.Clients[1-i]) })
			require.Less(q, took, locktest.SlowPoll/2)
		}
	}
	pair()
	pair()
	q.Server.Do(q, "CONFIG", "RESETSTAT")
	start := time.Now()
	for range times {
		pair()
	}
	cost := map[string]int{"polls": 2 * int(time.Since(start)/time.Second)}
	for _, command := range commands {
		cost[command] = locktest.Calls(q, q.Server, command)
	}
	return cost
}

// A hand-off of a sharded client costs the commands of one server, and the
// messages go by SPUBLISH only.
func TestShardedHandOffs(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		const times = 10
		q := newShardedBench(t, redistest.Start(t), m)
		got := handOffsCost(q, times, "evalsha", "publish", "spublish", "ssubscribe", "subscribe")
		require.Zero(t, got["publish"]+got["ssubscribe"]+got["subscribe"], got)
		one := handOffsCost(locktest.NewQueueBench(t, m, 2), times, "evalsha", "publish", "spublish")
		require.Zero(t, one["spublish"])
		slack := times + one["polls"] + got["polls"]
		require.InDelta(t, one["evalsha"], got["evalsha"], float64(slack), "%v, on one server %v", got, one)
		require.InDelta(t, one["publish"], got["spublish"], float64(slack), "%v, on one server %v", got, one)
		require.ElementsMatch(t, []string{sharded(q, q.Clients[0]), sharded(q, q.Clients[1])}, shardChannels(t, q.Server))
	})
}

// The first wait for a lock costs an SSUBSCRIBE, and a poll when it is
// confirmed. The next wait costs neither.
func TestFirstShardedWait(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := newShardedBench(t, redistest.Start(t), m)
		wait := func() (scripts, subscribed int) {
			h := q.Take(q.Clients[0])
			q.Server.Do(t, "CONFIG", "RESETSTAT")
			w := q.WaitSubscribed(0, q.Clients[1], polledSeldom()...) // by a poll at the confirmation
			scripts, subscribed = locktest.Calls(t, q.Server, "evalsha"), locktest.Calls(t, q.Server, "ssubscribe")
			next, _ := q.HandOff(h, w)
			q.Unlock(next)
			return scripts, subscribed
		}
		h := q.Take(q.Clients[0]) // the server learns the scripts
		q.Unlock(h)
		_, subscribed := wait()
		require.Equal(t, 1, subscribed)
		again, subscribed := wait()
		require.Zero(t, subscribed)
		require.LessOrEqual(t, again, 3, "enqueue, and a poll that may be due")
	})
}

// A server that has no sharded channels, or refuses them, gets a subscription
// to the channel of the client.
func TestShardedChannelsAreRefused(t *testing.T) {
	locktest.EachCase(t, locktest.QueueModes, map[string]func(testing.TB) *redistest.Server{
		"unknown": func(t testing.TB) *redistest.Server {
			return redistest.Start(t, "--rename-command", "SSUBSCRIBE", "", "--rename-command", "SPUBLISH", "")
		},
		"denied": func(t testing.TB) *redistest.Server { return startWithout(t, "-ssubscribe") },
		"denied, also to publish": func(t testing.TB) *redistest.Server {
			return startWithout(t, "-ssubscribe", "-spublish")
		},
	}, func(t testing.TB, m mode, start func(testing.TB) *redistest.Server) {
		q := newShardedBench(t, start(t), m)
		got := handOffsCost(q, 3, "publish")
		require.Positive(t, got["publish"])
		require.EqualValues(t, 1, listeners(q, q.Clients[0]))
		require.Empty(t, shardChannels(t, q.Server))
		q.Server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		handOffsCost(q, 3)
	})
}

// refusals returns how often the server has refused these commands.
func refusals(t testing.TB, s *redistest.Server, commands ...string) (all []int) {
	t.Helper()
	text, err := redis.String(s.Do(t, "INFO", "commandstats"), nil)
	require.NoError(t, err)
	for _, command := range commands {
		_, rest, _ := strings.Cut(text, "cmdstat_"+command+":")
		_, rest, _ = strings.Cut(rest, "rejected_calls=")
		n, _, _ := strings.Cut(rest, ",")
		count, _ := strconv.Atoi(n)
		all = append(all, count)
	}
	return all
}

// A server that refuses any subscription is asked once in a while. Meanwhile
// waiters poll at their poll interval.
func TestAllChannelsAreRefused(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := newShardedBench(t, startWithout(t, "-ssubscribe", "-subscribe"), m)
		asks := func() []int { return refusals(t, q.Server, "ssubscribe", "subscribe") }
		var took []time.Duration
		for range 8 {
			took = append(took, handOffToSecond(q, 30*time.Millisecond, func() {
				testkit.Eventually(t, testkit.Patience, func() bool { return asks()[1] > 0 }, "asked")
			}))
		}
		requireMedian(t, took, locktest.NotifyLimit)
		require.Equal(t, []int{1, 1}, asks(), "the next time is 30 s away at least")
	})
}

// Channels that a client gives up, because the server refuses another one, are
// lost: their waiters poll.
func TestShardedChannelsAreGivenUp(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := newShardedBench(t, redistest.Start(t), m)
		took := handOffToSecond(q, 30*time.Millisecond, func() {
			q.AwaitSubscribed(q.Clients[1])
			q.Server.Do(t, "ACL", "SETUSER", "default", "-ssubscribe", "-subscribe")
			locktest.Engine(q.Clients[1]).Queue.Reached(q.Key + "another")
			testkit.Eventually(t, testkit.Patience, func() bool { return len(shardChannels(t, q.Server)) == 0 }, "given up")
		})
		require.Less(t, took, locktest.NotifyLimit)
	})
}

// If messages do not arrive although the channel is there, waiters poll at
// their poll interval.
func TestShardedMessagesDoNotArrive(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := newShardedBench(t, startWithout(t, "-spublish"), m)
		var took []time.Duration
		for range 5 {
			took = append(took, handOffToSecond(q, 30*time.Millisecond, func() {
				testkit.Eventually(t, testkit.Patience, func() bool { return len(shardChannels(t, q.Server)) > 0 }, "listens")
			}))
		}
		requireMedian(t, took, locktest.NotifyLimit)
	})
}

// Channels that nobody uses are dropped when another lock is waited for. A
// channel that is used again is there again.
func TestUnusedShardedChannelsAreDropped(t *testing.T) {
	t.Parallel()
	q := newShardedBench(t, redistest.Start(t), locktest.PlainUnfair)
	waiter := q.Clients[1]
	queue := locktest.Engine(waiter).Queue
	const keep = 30 * time.Millisecond
	use := func(name string) {
		t.Helper()
		h := locktest.Take(t, relock.NewRedisLock(name, q.Clients[0]).Acquire)
		done := testkit.Async(t, func() error {
			w, err := relock.NewRedisLock(name, waiter, append(polledSeldom(), relock.WithBlock())...).Acquire(t.Context())
			if err == nil {
				err = w.Unlock(t.Context())
			}
			return err
		})
		locktest.AwaitSubscribed(t, q.Server, locktest.KeyOf(waiter, name), waiter)
		require.NoError(t, h.Unlock(t.Context()))
		require.NoError(t, testkit.ResultWithin(t, done, testkit.Patience), "by a message")
	}
	for i := range 8 {
		use(fmt.Sprint("early", i))
	}
	require.Len(t, shardChannels(t, q.Server), 8)
	queue.DropAfter(keep)
	for i := range 3 {
		time.Sleep(2 * keep) // a time of the test, not a wait for something
		use(fmt.Sprint("late", i))
	}
	testkit.Eventually(t, testkit.Patience, func() bool { return len(shardChannels(t, q.Server)) <= 3 }, "dropped")
	use("early0")
	require.LessOrEqual(t, queue.State().Channels, 4)
}

// Nobody sees the mark of sharded clients.
func TestShardedClientsHaveNoMark(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := newShardedBench(t, redistest.Start(t), m)
		h := q.Take(q.Clients[0])
		w := q.WaitNext(q.Context(), 0, q.Clients[1])
		info := locktest.Inspect(t, q.Clients[1], locktest.QueueKey)
		for i, client := range []string{info.Holder.Client, info.Waiters[0].Client} {
			require.Equal(t, locktest.Engine(q.Clients[i]).Identity.ID, client+"~")
		}
		if m.Kind == "ReentrantLock" {
			require.Equal(t, 1, info.Holder.Count)
			require.Contains(t, info.Holder.Owner, "goroutine")
		}
		next, _ := q.HandOff(h, w)
		q.Unlock(next)
	})
}

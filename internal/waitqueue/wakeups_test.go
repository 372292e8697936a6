package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// forge publishes a wake-up so often, and returns how many looks the pause
// allows meanwhile.
func forge(c *relock.Client, publish func(channel, text string), wait, redisKey string, times int) (allowed int) {
	start := time.Now()
	for range times {
		publish(locktest.Prefix(c)+locktest.Engine(c).Identity.ID, wait+" "+redisKey)
	}
	return int(time.Since(start)/waitqueue.LookPause) + 1 + waitqueue.LooksAhead
}

// However many wake-ups somebody forges, a wait takes one look for each pause.
func TestForgedWakeUpsCostFewLooks(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[1])
		w := q.WaitNext(context.Background(), 0, q.Clients[0], relock.WithPollInterval(locktest.Leisure))
		q.AwaitHeard(q.Clients[0])
		publish := publisher(t, q.Server)
		const forged = 2000
		before := locktest.Calls(t, q.Server, "evalsha")
		start := time.Now()
		allowed := forge(q.Clients[0], publish, w.Name(), q.Key, forged)
		looks := locktest.Calls(t, q.Server, "evalsha") - before
		polls := 2 * (1 + int(time.Since(start)/time.Second))
		t.Logf("%d forged in %v: %d looks", forged, time.Since(start), looks)
		require.LessOrEqual(t, looks, allowed+polls)
		require.Greater(t, looks, 1, "it does not look at all")
		h, _ = q.HandOver(h, w)
		q.Unlock(h)
		q.RequireNothingLeft()
	})
}

// publisher returns a function that publishes over one connection, as fast as
// the server answers.
func publisher(t testing.TB, s *redistest.Server) func(channel, text string) {
	conn := s.Dial(t)
	t.Cleanup(func() { _ = conn.Close() })
	return func(channel, text string) {
		_, err := conn.Do("PUBLISH", channel, text)
		require.NoError(t, err)
	}
}

// A RedLock's call likewise: one round for each pause, and node that is forged
// for.
func TestForgedWakeUpsOfARedLockCostFewRounds(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	others := b.Others()
	h, err := b.Lock(b.Clients).Acquire(t.Context())
	require.NoError(t, err)
	w := b.WaitPatiently(t.Context(), others)
	b.AwaitListed(1, others)
	node := 0 // one that h has: the call is listed there only
	for len(b.List(node)) != 1 || !locktest.Engine(others[node]).Queue.State().Subscribed {
		node++
	}
	publish, other := publisher(t, b.Servers[node]), b.Servers[(node+1)%3]
	const forged = 2000
	before := locktest.Calls(t, other, "evalsha")
	start := time.Now()
	allowed := forge(others[node], publish, b.List(node)[0], b.Prefix+"{k}", forged)
	rounds := locktest.Calls(t, other, "evalsha") - before
	slack := 20 * (1 + int(time.Since(start)/time.Second)) // renewals, rounds that have begun, and what it asks by itself
	t.Logf("%d forged in %v: %d rounds", forged, time.Since(start), rounds)
	require.LessOrEqual(t, rounds, allowed+slack)
	next, _ := b.Granted(w, h)
	require.NoError(t, next.Unlock(t.Context()))
	b.RequireNobodyListed(others)
}

// A wake-up that comes within the pause after a look is looked at when that
// ends: it may be the one that counts.
func TestWakeUpWithinThePauseIsNotDropped(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		holder, waiter := q.Clients[1], q.Clients[0]
		channel := locktest.Prefix(waiter) + locktest.Engine(waiter).Identity.ID
		var took []time.Duration
		for range 7 {
			h := q.Take(holder)
			w := q.WaitNext(context.Background(), 0, waiter, relock.WithPollInterval(locktest.Leisure))
			q.AwaitHeard(waiter)
			text := w.Name() + " " + q.Key
			before := locktest.Calls(t, q.Server, "evalsha")
			locktest.Engine(waiter).Queue.PauseFor(10 * time.Millisecond) // from a wake-up before, however slow the machine is
			q.Server.Do(t, "PUBLISH", channel, text)
			testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Calls(t, q.Server, "evalsha") > before }, "looks")
			locktest.Engine(waiter).Queue.PauseFor(30 * time.Millisecond)
			start := time.Now()
			q.Server.Do(t, "EVAL", "redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], ARGV[2])", 1, q.Key, channel, text)
			next := w.Granted()
			took = append(took, time.Since(start))
			_ = h.Unlock(context.Background()) // lost
			q.Unlock(next)
		}
		t.Logf("median %v, longest %v", locktest.Middle(took), took[len(took)-1])
		require.Less(t, locktest.Middle(took), locktest.PushLimit)
	})
}

package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// forge publishes a wake-up so often, and returns how many looks the pause
// allows meanwhile.
func forge(c *Client, publish func(channel, text string), wait, redisKey string, times int) (allowed int) {
	start := time.Now()
	for range times {
		publish(c.config.prefix+c.engine.Identity.ID, wait+" "+redisKey)
	}
	return int(time.Since(start)/waitqueue.LookPause) + 1 + waitqueue.LooksAhead
}

// However many wake-ups somebody forges, a wait takes one look for each pause.
func TestForgedWakeUpsCostFewLooks(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		h := q.take(q.clients[1])
		w := q.waitNext(context.Background(), 0, q.clients[0], WithPollInterval(leisure))
		q.awaitHeard(q.clients[0])
		publish := publisher(t, q.server)
		const forged = 2000
		before := calls(t, q.server, "evalsha")
		start := time.Now()
		allowed := forge(q.clients[0], publish, w.name(), q.key, forged)
		looks := calls(t, q.server, "evalsha") - before
		polls := 2 * (1 + int(time.Since(start)/time.Second))
		t.Logf("%d forged in %v: %d looks", forged, time.Since(start), looks)
		require.LessOrEqual(t, looks, allowed+polls)
		require.Greater(t, looks, 1, "it does not look at all")
		h, _ = q.handOver(h, w)
		q.unlock(h)
		q.requireNothingLeft()
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
	b := newRedBench(t, newRedServers(t, 3))
	others := b.others()
	h, err := b.lock(b.clients).Acquire(t.Context())
	require.NoError(t, err)
	w := b.waitPatiently(t.Context(), others)
	b.awaitListed(1, others)
	node := 0 // one that h has: the call is listed there only
	for len(b.list(node)) != 1 || !others[node].engine.Queue.State().Subscribed {
		node++
	}
	publish, other := publisher(t, b.servers[node]), b.servers[(node+1)%3]
	const forged = 2000
	before := calls(t, other, "evalsha")
	start := time.Now()
	allowed := forge(others[node], publish, b.list(node)[0], b.prefix+"{k}", forged)
	rounds := calls(t, other, "evalsha") - before
	slack := 20 * (1 + int(time.Since(start)/time.Second)) // renewals, rounds that have begun, and what it asks by itself
	t.Logf("%d forged in %v: %d rounds", forged, time.Since(start), rounds)
	require.LessOrEqual(t, rounds, allowed+slack)
	next, _ := b.granted(w, h)
	require.NoError(t, next.Unlock(t.Context()))
	b.requireNobodyListed(others)
}

// A wake-up that comes within the pause after a look is looked at when that
// ends: it may be the one that counts.
func TestWakeUpWithinThePauseIsNotDropped(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		holder, waiter := q.clients[1], q.clients[0]
		channel := waiter.config.prefix + waiter.engine.Identity.ID
		var took []time.Duration
		for range 7 {
			h := q.take(holder)
			w := q.waitNext(context.Background(), 0, waiter, WithPollInterval(leisure))
			q.awaitHeard(waiter)
			text := w.name() + " " + q.key
			before := calls(t, q.server, "evalsha")
			waiter.engine.Queue.PauseFor(10 * time.Millisecond) // from a wake-up before, however slow the machine is
			q.server.Do(t, "PUBLISH", channel, text)
			testkit.Eventually(t, testkit.Patience, func() bool { return calls(t, q.server, "evalsha") > before }, "looks")
			waiter.engine.Queue.PauseFor(30 * time.Millisecond)
			start := time.Now()
			q.server.Do(t, "EVAL", "redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], ARGV[2])", 1, q.key, channel, text)
			next := w.granted()
			took = append(took, time.Since(start))
			_ = h.Unlock(context.Background()) // lost
			q.unlock(next)
		}
		t.Logf("median %v, longest %v", middle(took), took[len(took)-1])
		require.Less(t, middle(took), pushLimit)
	})
}

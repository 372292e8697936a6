package locktest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// QueueLength returns how many entries the queue has.
func (q *QueueBench) QueueLength() int {
	q.Helper()
	n, err := redis.Int(q.Server.Do(q, "ZCARD", q.Key+":q"), nil)
	require.NoError(q, err)
	return n
}

// EntriesOf returns how many of so many waits have an entry in Redis: of an
// unfair lock with one holder, one for each client.
func (q *QueueBench) EntriesOf(waits, clients int) int {
	if !q.Fair && q.Kind != "RWLock" {
		return min(waits, clients)
	}
	return waits
}

// AwaitQueued waits until the queue has n entries.
func (q *QueueBench) AwaitQueued(n int) {
	q.Helper()
	testkit.Eventually(q, testkit.Patience, func() bool { return q.QueueLength() == n }, "as many waits in the queue")
}

// AwaitSubscribed waits until the server has recorded, at a poll, that it sees
// the client's subscription.
func (q *QueueBench) AwaitSubscribed(c *relock.Client) {
	q.Helper()
	AwaitSubscribed(q, q.Server, q.Key, c)
}

// AwaitSubscribed is [QueueBench.AwaitSubscribed] for any lock.
func AwaitSubscribed(t testing.TB, s *redistest.Server, key string, c *relock.Client) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		heartbeat, _ := redis.String(s.Do(t, "HGET", key+":b", Engine(c).Identity.ID), nil)
		return strings.HasSuffix(heartbeat, ":1")
	}, "a subscription that the server has noted")
}

// Value returns what the lock's key holds.
func (q *QueueBench) Value() string {
	q.Helper()
	value, _ := q.Server.Do(q, "GET", q.Key).([]byte)
	return string(value)
}

// Entries returns the entries of the queue in order.
func (q *QueueBench) Entries() []string {
	q.Helper()
	waits, err := redis.Strings(q.Server.Do(q, "ZRANGE", q.Key+":q", 0, -1), nil)
	require.NoError(q, err)
	return waits
}

// NewestEntry returns the last entry of the queue.
func (q *QueueBench) NewestEntry() string {
	q.Helper()
	all := q.Entries()
	require.NotEmpty(q, all)
	return all[len(all)-1]
}

// HintOf returns the name of an entry without its nonce: a message with it is
// only a hint.
func HintOf(name string) string {
	return strings.Join(strings.SplitN(name, ":", 5)[:4], ":")
}

// Snapshot returns what the server has of the lock, for messages.
func (q *QueueBench) Snapshot() string {
	var all []string
	for _, args := range [][]any{
		{"GET", q.Key}, {"HGETALL", q.Key}, {"ZRANGE", q.Key + ":q", 0, -1, "WITHSCORES"}, {"HGETALL", q.Key + ":b"},
	} {
		reply, err := q.Server.Try(q, args[0].(string), args[1:]...)
		text, err2 := redis.Strings(reply, err)
		if err2 != nil {
			one, _ := redis.String(reply, err)
			text = []string{one}
		}
		all = append(all, strings.Join(text, " "))
	}
	return strings.Join(all, "; ")
}

// stored returns what the lock's hash holds.
func (q *QueueBench) stored() map[string]string {
	q.Helper()
	fields, err := redis.StringMap(q.Server.Do(q, "HGETALL", q.Key), nil)
	require.NoError(q, err)
	return fields
}

// RequireStored checks that the server has the hold, with so many levels of its
// owner, and nothing else.
func (q *QueueBench) RequireStored(h relock.Hold, levels int) {
	q.Helper()
	fields := q.stored()
	require.Equal(q, strconv.Itoa(levels), fields[Level(h).Owner()])
	for _, c := range q.Clients {
		require.Equal(q, Level(h).IsOf(Engine(c)), strings.Contains(fields["info"], Engine(c).Identity.ID))
	}
	require.Len(q, fields, 4, "%v", fields)
}

// RequireIdle waits until neither Redis nor the clients have anything of the
// lock. Poll intervals above a second are named.
func (q *QueueBench) RequireIdle(intervals ...time.Duration) {
	q.Helper()
	q.RequireNothingLeft(intervals...)
	for _, c := range q.Clients {
		testkit.Eventually(q, testkit.Patience, func() bool { return IsIdle(c, QueueKey) }, "nothing is remembered")
	}
}

// UnlockLast releases the last hold of the lock, of which nothing may be left
// then. Poll intervals above a second are named.
func (q *QueueBench) UnlockLast(h relock.Hold, intervals ...time.Duration) {
	q.Helper()
	q.Unlock(h)
	q.RequireNothingLeft(intervals...)
}

// RequireNothingLeft waits until lock and queue are gone. The heartbeats are
// gone too, or expire: a last poll may have crossed the end. They stay for 12
// periods. Intervals above a second are named.
func (q *QueueBench) RequireNothingLeft(intervals ...time.Duration) {
	q.Helper()
	period := slices.Max(append(intervals, time.Second))
	testkit.Eventually(q, testkit.Patience, func() bool { return q.Server.Do(q, "EXISTS", q.Key, q.Key+":q") == int64(0) },
		"nothing left of lock and queue")
	ms, err := redis.Int64(q.Server.Do(q, "PTTL", q.Key+":b"), nil)
	require.NoError(q, err)
	require.NotEqual(q, int64(-1), ms, "heartbeats without an expiry")
	require.LessOrEqual(q, ms, (12 * period).Milliseconds())
}

package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The key becomes something of another program's while somebody waits: the waiter is told so.
func TestKeyBecomesSomethingElseWhileWaiting(t *testing.T) {
	t.Parallel()
	var cells []cellRun
	for name, command := range map[string][]any{
		"a list":   {"RPUSH", "x"},
		"a set":    {"SADD", "x"},
		"a string": {"SET", "x"},
		"a hash":   {"HSET", "field", "x"},
		"a stream": {"XADD", "*", "field", "x"},
	} {
		for _, m := range queueModes() {
			cells = append(cells, cellRun{name + ", " + m.name(), func(t testing.TB) {
				q := newQueueBench(t, m, 2)
				q.take(q.clients[0])
				first := q.waitNext(context.Background(), 0, q.clients[1])
				second := q.waitNext(context.Background(), 1, q.clients[0])
				const replace = "redis.call('DEL', KEYS[1]) redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"
				q.server.Do(t, "EVAL", append([]any{replace, 1, q.key}, command...)...)
				start := time.Now()
				require.ErrorIs(t, first.end(), ErrKeyConflict)
				require.ErrorIs(t, second.end(), ErrKeyConflict)
				require.Less(t, time.Since(start), 5*time.Second)
				require.Equal(t, int64(1), q.server.Do(t, "EXISTS", q.key), "it is not ours")
				require.Equal(t, int64(-1), q.server.Do(t, "PTTL", q.key), "it is not ours")
				q.awaitQueued(0)
			}})
		}
	}
	together(t, cells)
}

// Fair and unfair, plain and reentrant users of one key are told that they do not agree: of a hold and of a reservation.
func TestModesDoNotMix(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		h := q.take(q.clients[0])
		for _, other := range queueModes() {
			if other == m {
				continue
			}
			lock := other.lock(q.clients[1])
			require.ErrorIs(t, lock.TryLock(t.Context()), ErrKeyConflict, "%s meets %s", other.name(), m.name())
			require.ErrorIs(t, requireAtOnce(t, lock.Lock), ErrKeyConflict, "%s waits for %s", other.name(), m.name())
		}
		require.NoError(t, h.Err())
		q.awaitQueued(0)
		q.unlock(h)
		q.server.Do(t, "SET", q.key, "relock/1|w|somebody:1:"+waitLetters(m)+":60000", "PX", 60000)
		for _, other := range queueModes() {
			lock := other.lock(q.clients[1])
			if other == m {
				require.ErrorIs(t, lock.TryLock(t.Context()), ErrLockAcquiredByOthers, "%s meets its own reservation", m.name())
				continue
			}
			err := lock.TryLock(t.Context())
			require.ErrorIs(t, err, ErrKeyConflict, "%s meets a reservation of %s", other.name(), m.name())
			require.ErrorIs(t, requireAtOnce(t, lock.Lock), ErrKeyConflict, "%s waits for a reservation of %s", other.name(), m.name())
		}
	})
}

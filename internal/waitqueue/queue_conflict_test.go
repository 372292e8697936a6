package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
)

// The key becomes something of another program's while somebody waits: the waiter is told so.
func TestKeyBecomesSomethingElseWhileWaiting(t *testing.T) {
	t.Parallel()
	var cells []locktest.CellRun
	for name, command := range map[string][]any{
		"a list":   {"RPUSH", "x"},
		"a set":    {"SADD", "x"},
		"a string": {"SET", "x"},
		"a hash":   {"HSET", "field", "x"},
		"a stream": {"XADD", "*", "field", "x"},
	} {
		for _, m := range locktest.QueueModes() {
			cells = append(cells, locktest.CellRun{Name: name + ", " + m.Title(), Run: func(t testing.TB) {
				q := locktest.NewQueueBench(t, m, 2)
				q.Take(q.Clients[0])
				first := q.WaitNext(context.Background(), 0, q.Clients[1])
				second := q.WaitNext(context.Background(), 1, q.Clients[0])
				const replace = "redis.call('DEL', KEYS[1]) redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"
				q.Server.Do(t, "EVAL", append([]any{replace, 1, q.Key}, command...)...)
				start := time.Now()
				require.ErrorIs(t, first.End(), relock.ErrKeyConflict)
				require.ErrorIs(t, second.End(), relock.ErrKeyConflict)
				require.Less(t, time.Since(start), 5*time.Second)
				require.Equal(t, int64(1), q.Server.Do(t, "EXISTS", q.Key), "it is not ours")
				require.Equal(t, int64(-1), q.Server.Do(t, "PTTL", q.Key), "it is not ours")
				q.AwaitQueued(0)
			}})
		}
	}
	locktest.Together(t, cells)
}

// Fair and unfair, plain and reentrant users of one key are told that they do not agree: of a hold and of a reservation.
func TestModesDoNotMix(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[0])
		for _, other := range locktest.QueueModes() {
			if other == m {
				continue
			}
			lock := other.Lock(q.Clients[1])
			require.ErrorIs(t, lock.TryLock(t.Context()), relock.ErrKeyConflict, "%s meets %s", other.Title(), m.Title())
			require.ErrorIs(t, locktest.RequireAtOnce(t, lock.Lock), relock.ErrKeyConflict, "%s waits for %s", other.Title(), m.Title())
		}
		require.NoError(t, h.Err())
		q.AwaitQueued(0)
		q.Unlock(h)
		q.Server.Do(t, "SET", q.Key, "relock/1|w|somebody:1:"+waitLetters(m)+":60000", "PX", 60000)
		for _, other := range locktest.QueueModes() {
			lock := other.Lock(q.Clients[1])
			if other == m {
				require.ErrorIs(t, lock.TryLock(t.Context()), relock.ErrLockAcquiredByOthers, "%s meets its own reservation", m.Title())
				continue
			}
			err := lock.TryLock(t.Context())
			require.ErrorIs(t, err, relock.ErrKeyConflict, "%s meets a reservation of %s", other.Title(), m.Title())
			require.ErrorIs(t, locktest.RequireAtOnce(t, lock.Lock), relock.ErrKeyConflict, "%s waits for a reservation of %s", other.Title(), m.Title())
		}
	})
}

package waitqueue_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Close ends all waits immediately, those of local waiters too, and the
// subscription; TestMain sees whether a goroutine is left. The waiters of other
// clients get the lock.
func TestCloseEndsWaits(t *testing.T) {
	modes := append([]mode{{Kind: "RWLock"}, {Kind: "RWLock", Fair: true}}, locktest.QueueModes...)
	locktest.EachMode(t, modes, func(t testing.TB, m mode) {
		const waiters = 100
		q := locktest.NewQueueBench(t, m, 3)
		closing := q.Clients[2]
		h := q.Take(q.Clients[0])
		var all []*waiting
		for n := range waiters {
			w := q
			if n%2 == 0 && m.Kind == "RWLock" {
				w = q.Reading()
			}
			all = append(all, w.Wait(context.Background(), closing))
		}
		q.AwaitQueued(q.EntriesOf(waiters, 1))
		next := q.WaitNext(context.Background(), q.EntriesOf(waiters, 1), q.Clients[1])
		q.AwaitSubscribed(closing)
		watch, begun := testkit.NewStopwatch(t), time.Now()
		require.NoError(t, closing.Close())
		for _, w := range all {
			require.ErrorIs(t, w.End(), relock.ErrClosed)
			watch.Check(w.At.Sub(begun), 100*time.Millisecond)
		}
		testkit.Eventually(t, testkit.Patience, func() bool { return listeners(q, closing) == 0 }, "no subscription")
		q.Unlock(h)
		last := next.Granted()
		watch.Within(10 * time.Second)
		q.Unlock(last)
		q.RequireIdle()
	})
}

// The key becomes another program's while somebody waits: the waiter gets an
// error.
func TestKeyBecomesSomethingElseWhileWaiting(t *testing.T) {
	locktest.EachCase(t, locktest.QueueModes, map[string][]any{
		"a list":   {"RPUSH", "x"},
		"a set":    {"SADD", "x"},
		"a string": {"SET", "x"},
		"a hash":   {"HSET", "field", "x"},
		"a stream": {"XADD", "*", "field", "x"},
	}, func(t testing.TB, m mode, command []any) {
		q := locktest.NewQueueBench(t, m, 2)
		q.Take(q.Clients[0])
		first := q.WaitNext(context.Background(), 0, q.Clients[1])
		second := q.WaitNext(context.Background(), 1, q.Clients[0])
		replaceKey(q, command...)
		watch := testkit.NewStopwatch(t)
		require.ErrorIs(t, first.End(), relock.ErrKeyConflict)
		require.ErrorIs(t, second.End(), relock.ErrKeyConflict)
		watch.Within(2*time.Second, "a poll, and a request")
		require.Equal(t, int64(-1), q.Server.Do(t, "PTTL", q.Key), "it is not ours")
		q.AwaitQueued(0)
	})
}

// replaceKey makes the lock's key that of another program, by a command without
// its key.
func replaceKey(q *bench, command ...any) {
	q.Helper()
	const replace = "redis.call('DEL', KEYS[1]) redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"
	q.Server.Do(q, "EVAL", append([]any{replace, 1, q.Key}, command...)...)
}

// A key belongs to one kind of lock. Users of another learn that they do not
// agree, from a hold, from a local waiter and from a reservation. They change
// nothing. The other mode of the same kind finds the lock held.
func TestKindsDoNotMix(t *testing.T) {
	modes := append([]mode{
		{Kind: "RWLock"}, {Kind: "RWLock", Fair: true}, {Kind: "RWLock, reading"}, {Kind: "RWLock, reading", Fair: true},
	}, locktest.QueueModes...)
	const reading = "RWLock, reading"
	family := func(m mode) string { return strings.TrimSuffix(m.Kind, ", reading") }
	locktest.EachMode(t, modes, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		requireConflicts := func(c *relock.Client, what string) {
			before := q.Server.Content(t, q.Key)
			for _, other := range modes {
				lock := other.Lock(c)
				switch {
				case family(other) != family(m):
					require.ErrorIs(t, lock.TryLock(t.Context()), relock.ErrKeyConflict,
						"%s meets %s of %s", other.Title(), what, m.Title())
					require.ErrorIs(t, locktest.RequireAtOnce(t, lock.Lock), relock.ErrKeyConflict,
						"%s waits for %s of %s", other.Title(), what, m.Title())
				case c == q.Clients[1] && (m.Kind != reading || other.Kind != reading):
					require.ErrorIs(t, lock.TryLock(t.Context()), relock.ErrLockAcquiredByOthers, what)
				}
			}
			require.Equal(t, before, q.Server.Content(t, q.Key), what)
		}
		h := q.Take(q.Clients[0])
		requireConflicts(q.Clients[1], "a hold")
		require.NoError(t, h.Err())
		q.AwaitQueued(0)
		if slices.Contains(locktest.Unfair, m) {
			w := q.WaitLocally(t.Context(), 0)
			requireConflicts(q.Clients[0], "a local waiter")
			h = q.PassTo(h, w)
		}
		q.Unlock(h)
		q.RequireIdle()
		if family(m) != "RWLock" {
			q.Server.Do(t, "SET", q.Key, "relock/1|w|somebody:1:"+letters(m)+":60000", "PX", 60000)
			requireConflicts(q.Clients[1], "a reservation")
		}
	})
}

// Fair and unfair calls of several clients wait in one queue, and are served in
// the order of arrival. An attempt of either mode finds the lock held.
func TestModesShareAQueue(t *testing.T) {
	modes := []mode{{Kind: "RWLock"}, {Kind: "Semaphore"}, locktest.PlainUnfair, locktest.ReentrantUnfair}
	locktest.EachMode(t, modes, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 3)
		fair := relock.WithFair()
		for _, first := range [][]relock.LockOption{nil, {fair}} {
			h := q.Take(q.Clients[0], first...)
			waiters := []*waiting{
				q.WaitNext(context.Background(), 0, q.Clients[1], fair),
				q.WaitNext(context.Background(), 1, q.Clients[2]),
				q.WaitNext(context.Background(), 2, q.Clients[1], fair),
			}
			for _, opts := range [][]relock.LockOption{nil, {fair}} {
				require.ErrorIs(t, q.Lock(q.Clients[2], opts...).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
			}
			for n, w := range waiters {
				for _, later := range waiters[n:] {
					require.False(t, later.HasEnded())
				}
				q.Unlock(h)
				h = w.Granted()
			}
			q.Unlock(h)
			q.RequireIdle()
		}
	})
}

// A waiter that loses its permission or its password gets an error, and does
// not sleep for ever.
func TestWaiterLosesItsPermission(t *testing.T) {
	locktest.EachCase(t, locktest.QueueModes, map[string][][]any{
		"commands":       {{"ACL", "SETUSER", "app", "-@all"}},
		"keys":           {{"ACL", "SETUSER", "app", "resetkeys"}},
		"scripts":        {{"ACL", "SETUSER", "app", "-evalsha", "-eval"}},
		"the user":       {{"ACL", "DELUSER", "app"}},
		"password":       {{"ACL", "SETUSER", "app", "resetpass", ">new"}, {"CLIENT", "KILL", "USER", "app"}},
		"user is off":    {{"ACL", "SETUSER", "app", "off"}, {"CLIENT", "KILL", "USER", "app"}},
		"in the scripts": {{"ACL", "SETUSER", "app", "-@all", "+evalsha", "+eval", "+publish", "+subscribe"}},
	}, func(t testing.TB, m mode, change [][]any) {
		q := locktest.NewQueueBench(t, m, 1)
		c := asUser(q, []any{"~*", "&*", "+@all"})
		h := q.Take(q.Clients[0])
		w := q.WaitSubscribed(0, c)
		for _, command := range change {
			q.Server.Do(t, command[0].(string), command[1:]...)
		}
		watch := testkit.NewStopwatch(t)
		require.ErrorIs(t, w.End(), relock.ErrDenied)
		watch.Within(3*time.Second, "a poll or two")
		q.Unlock(h)
	})
}

// asUser returns another client of the lock, as a user with these permissions.
func asUser(q *bench, rules []any, opts ...relock.ClientOption) *relock.Client {
	q.Helper()
	return locktest.AsUser(q, q.Server, "app", locktest.Prefix(q.Clients[0]), rules, opts...)
}

// A call beyond the queue limit fails immediately, even if it may wait. Nothing
// of it is left.
func TestQueueLimit(t *testing.T) {
	modes := append([]mode{{Kind: "MultiLock"}, {Kind: "RWLock"}}, locktest.QueueModes[1:]...)
	locktest.EachMode(t, modes, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 3)
		h := q.Take(q.Clients[0])
		w := q.Wait(t.Context(), q.Clients[1], relock.WithQueueLimit(1))
		q.AwaitQueued(1)
		require.ErrorIs(t, q.Wait(t.Context(), q.Clients[2], relock.WithQueueLimit(1)).End(), relock.ErrQueueFull)
		q.AwaitQueued(1)
		q.Unlock(h)
		q.UnlockLast(w.Granted())
	})
}

// Calls of one client for an unfair lock share one entry in Redis. The limit
// holds for local waiters too.
func TestQueueLimitOfLocalWaiters(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.PlainUnfair, 2)
	h := q.Take(q.Clients[0])
	limit := relock.WithQueueLimit(2)
	first, second := q.WaitLocally(t.Context(), 0, limit), q.WaitLocally(t.Context(), 1, limit)
	require.ErrorIs(t, q.Wait(t.Context(), q.Clients[0], limit).End(), relock.ErrQueueFull)
	q.AwaitQueued(1)
	ctx, cancel := context.WithCancel(t.Context())
	other := q.Wait(ctx, q.Clients[1], limit)
	q.AwaitQueued(2)
	cancel()
	require.ErrorIs(t, other.End(), context.Canceled)
	q.Unlock(h)
	q.Unlock(first.Granted())
	q.Unlock(second.Granted())
	q.RequireIdle()
}

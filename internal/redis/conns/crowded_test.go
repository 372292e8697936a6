package conns_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A hold that is granted when the server has no room for the watchdog's
// connection is renewed over an idle one, while its client locks over it too.
func TestFirstWatchedHoldAtTheLimit(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(testing.TB) (*redistest.Server, *relock.Client){
		"unix": func(t testing.TB) (*redistest.Server, *relock.Client) { return locktest.OnOwn(t) },
		"tcp, callers wait": func(t testing.TB) (*redistest.Server, *relock.Client) {
			s := redistest.StartTCP(t)
			return s, locktest.NewTestClient(t, s, relock.WithMaxActive(3), relock.WithWaitMode())
		},
		"a user's pool": func(t testing.TB) (*redistest.Server, *relock.Client) {
			s := redistest.Start(t)
			return s, locktest.AsUserPool(t, s, &redis.Pool{MaxIdle: 3})
		},
		"a user's pool, callers wait": func(t testing.TB) (*redistest.Server, *relock.Client) {
			s := redistest.StartTCP(t)
			return s, locktest.AsUserPool(t, s, &redis.Pool{MaxIdle: 3, MaxActive: 3, Wait: true})
		},
	}, func(t *testing.T, _ string, open func(testing.TB) (*redistest.Server, *relock.Client)) {
		s, c := open(t)
		warm(t, c, 2)
		full := redistest.FillUp(t, s)
		h := locktest.Acquire(t, c, "k")
		for range 3 {
			locktest.RequireRenewed(t, h)
			require.NoError(t, relock.NewRedisLock("other", c).Do(t.Context(), locktest.Nothing))
		}
		require.NoError(t, h.Unlock(t.Context()))
		full.RequireSame(t)
	})
}

// A TryLock that its caller has left, and that is executed late, is released in
// about a second.
func TestLateTryLockAtTheLimit(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	c, full := atTheLimit(t, s, 2)
	s.Pause(t)
	defer s.Resume(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, relock.NewRedisLock("k", c).TryLock(ctx), context.DeadlineExceeded)
	s.Resume(t)
	testkit.Eventually(t, testkit.Patience, func() bool { return full.Calls(t, "set") > 0 }, "executed late")
	watch := testkit.NewStopwatch(t)
	testkit.Eventually(t, testkit.Patience, func() bool { return !hasKey(t, full, c, "k") }, "released")
	watch.Within(1500 * time.Millisecond)
}

// atTheLimit returns a client with n idle connections, whose server has no room
// for another one.
func atTheLimit(t testing.TB, s *redistest.Server, n int) (*relock.Client, *redistest.Full) {
	t.Helper()
	c := locktest.NewTestClient(t, s)
	warm(t, c, n)
	return c, redistest.FillUp(t, s)
}

// withOneIdle runs a test with a client that has one idle connection, when its
// server has no room for another.
func withOneIdle(t *testing.T, run func(*testing.T, *relock.Client, *redistest.Full)) {
	t.Parallel()
	testkit.Each(t, map[string]func(testing.TB, ...string) *redistest.Server{
		"unix": redistest.Start, "tcp": redistest.StartTCP,
	}, func(t *testing.T, _ string, start func(testing.TB, ...string) *redistest.Server) {
		c, full := atTheLimit(t, start(t), 1)
		run(t, c, full)
	})
}

// Unlock of a MultiLock asks for its keys together. With one idle connection it
// releases all of them.
func TestMultiLockUnlockAtTheLimit(t *testing.T) {
	withOneIdle(t, func(t *testing.T, c *relock.Client, full *redistest.Full) {
		keys := []string{"a", "b", "c", "d"}
		for range 5 {
			h := locktest.Take(t, relock.NewMultiLock(keys, c).Acquire)
			require.NoError(t, h.Unlock(t.Context()))
			for _, key := range keys {
				require.False(t, hasKey(t, full, c, key), key)
			}
		}
		full.RequireSame(t)
	})
}

// Calls that the server refuses for want of room do not cost the client the
// idle connection that it has.
func TestRefusedCallsLeaveIdleConnections(t *testing.T) {
	withOneIdle(t, func(t *testing.T, c *relock.Client, full *redistest.Full) {
		for range 5 {
			var calls []<-chan error
			for range 4 * conns.Crowd {
				calls = append(calls,
					testkit.Async(t, func() error { return relock.NewRedisLock("k", c).TryDo(t.Context(), locktest.Nothing) }))
			}
			for _, call := range calls {
				if err := testkit.ResultWithin(t, call, testkit.Patience); err != nil {
					require.True(t, relock.IsRetryableErr(err), err)
				}
			}
			full.RequireSame(t)
		}
	})
}

// Waiters poll over an idle connection while there is none for the
// subscription, which takes none of the callers'.
func TestWaiterAtTheLimit(t *testing.T) {
	t.Parallel()
	c, full := atTheLimit(t, redistest.StartTCP(t), 2)
	h := locktest.Acquire(t, c, "k", relock.WithFair())
	waits := testkit.Async(t, func() error {
		return relock.NewRedisLock("k", c, relock.WithFair(), relock.WithBlock()).Lock(t.Context())
	})
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Inspect(t, c, "k").Waiting == 1 }, "waits")
	testkit.Eventually(t, testkit.Patience, func() bool { return full.Calls(t, "publish") >= 3 }, "polls")
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
	full.RequireSame(t)
}

// A release that was executed on a connection that then broke, and sent again
// over another one, was no loss.
func TestReleaseThatWasSentTwice(t *testing.T) {
	t.Parallel()
	s := locktest.NewServerWithScripts(t)
	c, proxy := locktest.Behind(t, s, relock.WithMaxActive(1))
	h := locktest.Acquire(t, c, "k")
	pool := locktest.PoolOf(c)
	apart := pool.SetApart(0)
	require.NoError(t, relock.NewRedisLock("another", c).Do(t.Context(), locktest.Nothing)) // opens the shared connection
	pool.SetApart(apart)
	defer putBack(c, borrow(t, c, 1)) // so that Unlock needs the retrier
	cut := proxy.On(faults.Script(script.Release.SHA), 1, faults.CutAfter)
	require.NoError(t, h.Unlock(t.Context()))
	<-cut
	locktest.RequireFree(t, s, c, "k")
}

// Renewals that wait for replicas go over an idle connection, WAIT behind them.
func TestReplicatedHoldAtTheLimit(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	c, full := atTheLimit(t, r.Master, 1)
	h, before := locktest.Acquire(t, c, "k", locktest.OneReplica), full.Calls(t, "wait")
	locktest.RequireRenewed(t, h)
	require.Greater(t, full.Calls(t, "wait"), before)
	full.RequireSame(t)
}

// What ends all waits of a client together does not make it open a connection
// for each.
func TestManyWaitersEndOverAFewConnections(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m locktest.QueueMode) {
		const (
			waiters = 300
			sending = 32 // calls for one lock, together
		)
		q := locktest.NewQueueBench(t, m, 2, relock.WithMaxIdle(2*sending))
		c := q.Clients[0]
		locktest.PoolOf(c).SetApart(waiters) // else they share one
		q.Take(q.Clients[1])
		var all []*locktest.Waiting
		for range waiters {
			all = append(all, q.Wait(context.Background(), c))
		}
		q.AwaitQueued(q.EntriesOf(waiters, 1))
		q.AwaitSubscribed(c)
		before := q.Server.Info(t, "stats", "total_connections_received")
		const replace = "redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], 'x')"
		q.Server.Do(q, "EVAL", replace, 1, q.Key)
		for _, w := range all {
			require.ErrorIs(t, w.End(), relock.ErrKeyConflict)
		}
		opened := q.Server.Info(t, "stats", "total_connections_received") - before
		require.LessOrEqual(t, opened, int64(2*sending), "connections")
	})
}

// hasKey reports whether a lock of c is in Redis.
func hasKey(t testing.TB, f *redistest.Full, c *relock.Client, key string) bool {
	t.Helper()
	n, err := redis.Int(f.Control.Do("EXISTS", locktest.KeyOf(c, key)))
	require.NoError(t, err)
	return n == 1
}

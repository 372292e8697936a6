package conns_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestMaxActiveWithoutWait(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Start(t), relock.WithMaxActive(2))
	conns := borrow(t, c, 2)
	for _, ctx := range []context.Context{t.Context(), locktest.Unbounded(t)} {
		for _, err := range []error{c.Ping(ctx), relock.NewRedisLock("k", c).Lock(ctx)} {
			require.ErrorIs(t, err, redis.ErrPoolExhausted)
			require.True(t, relock.IsRetryableErr(err))
		}
	}
	err := relock.NewRedisLock("k", c, relock.WithBlockTimeout(60*time.Millisecond)).Lock(t.Context())
	require.ErrorIs(t, err, redis.ErrPoolExhausted, "the last reason seen")

	waiting := testkit.Async(t, func() error { return relock.NewRedisLock("k", c, relock.WithBlock()).Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Waiting == 1 }, "it waits")
	putBack(c, conns)
	require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience), "a blocking Lock rides out a full pool")
	require.LessOrEqual(t, locktest.PoolOf(c).Open(), 2)
}

func TestMaxActiveWithWait(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Start(t), relock.WithMaxActive(1), relock.WithWaitMode())
	conns := borrow(t, c, 1)
	var results []<-chan error
	for _, ctx := range []context.Context{t.Context(), locktest.Unbounded(t)} {
		results = append(results,
			testkit.Async(t, func() error { return c.Ping(ctx) }),
			testkit.Async(t, func() error { return relock.NewRedisLock(uuid.NewString(), c).TryLock(ctx) }))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Ping(ctx), context.DeadlineExceeded, "the wait for a connection ends with the context")
	for _, result := range results {
		require.Empty(t, result, "it did not wait")
	}
	putBack(c, conns)
	testkit.AllWithin(t, results, testkit.Patience)
}

// Callers that leave while they wait for a connection take none with them,
// whether the pool is closed meanwhile or not. redigo's own wait mode panics
// then.
func TestCancelledCallersOfAFullPool(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		c := locktest.NewTestClient(t, redistest.Start(t), relock.WithMaxActive(2), relock.WithWaitMode())
		conns := borrow(t, c, 2)
		var results []<-chan error
		for range 1000 {
			ctx, cancel := context.WithCancel(t.Context())
			results = append(results, testkit.Async(t, func() error {
				if err := c.Ping(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, relock.ErrClosed) {
					return err
				}
				return nil
			}))
			go cancel()
		}
		if closes {
			require.NoError(t, c.Close())
		}
		putBack(c, conns)
		testkit.AllWithin(t, results, testkit.Patience)
		if !closes {
			putBack(c, borrow(t, c, 2))
		}
		require.Zero(t, locktest.PoolOf(c).InUse())
	}
}

func TestWaitModeEndsWithTheDialTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 640 * time.Millisecond
	c := locktest.NewTestClient(t, redistest.Start(t),
		relock.WithMaxActive(1), relock.WithWaitMode(), relock.WithDialTimeout(timeout))
	defer putBack(c, borrow(t, c, 1))
	require.NoError(t, timesOut(t, locktest.Unbounded(t), c.Ping, timeout))
}

func TestIdleConnections(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Start(t), relock.WithMaxIdle(2), relock.WithIdleTimeout(50*time.Millisecond))
	warm(t, c, 5)
	require.Equal(t, 2, locktest.PoolOf(c).Idle())
	time.Sleep(60 * time.Millisecond) // idle connections are closed at the next borrow
	require.NoError(t, c.Ping(t.Context()))
	require.Equal(t, 1, locktest.PoolOf(c).Idle())
}

// A lock and its unlock are two commands: no PING when a connection is
// borrowed, nothing else.
func TestTwoCommandsForAPair(t *testing.T) {
	t.Parallel()
	const pairs = 50
	testkit.Each(t, locktest.Kinds, func(t *testing.T, _ string, newLock locktest.NewLock) {
		c, proxy := locktest.Behind(t, redistest.Shared(t))
		l := newLock("k", c)
		require.NoError(t, l.Do(t.Context(), locktest.Nothing)) // makes the server know the scripts
		before := proxy.Count(faults.Any)
		for range pairs {
			for _, ctx := range []context.Context{t.Context(), locktest.Unbounded(t)} {
				require.NoError(t, errors.Join(l.Lock(ctx), l.Unlock(ctx)))
			}
		}
		require.Equal(t, 4*pairs, proxy.Count(faults.Any)-before)
	})
}

// A server that forgets its scripts as fast as it can costs no error in
// thousands of calls, nor a hold that is being renewed.
func TestScriptFlushInATightLoop(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 4, 100
	s, c := locktest.OnOwn(t)
	held := locktest.Acquire(t, c, "held")
	over := make(chan struct{})
	flushes := 0
	flushed := testkit.Async(t, func() error {
		conn := s.Dial(t)
		defer conn.Close() //nolint:errcheck // nothing is pending
		for {
			select {
			case <-over:
				return nil
			default:
			}
			if _, err := conn.Do("SCRIPT", "FLUSH"); err != nil {
				return err
			}
			flushes++
		}
	})
	conns.Together(goroutines, func(int) { useWhileFlushed(t, c, rounds) })
	locktest.RequireRenewed(t, held)
	close(over)
	require.NoError(t, testkit.ResultWithin(t, flushed, testkit.Patience))
	t.Logf("%d flushes", flushes)
	require.Greater(t, flushes, rounds)
	require.NoError(t, held.Unlock(t.Context()))
}

// useWhileFlushed takes and releases a plain lock, and three levels of a
// reentrant one.
func useWhileFlushed(t *testing.T, c *relock.Client, rounds int) {
	key := locktest.Engine(c).Identity.Goroutine()
	plain, reentrant := relock.NewRedisLock("plain "+key, c), relock.NewReentrantLock("reentrant "+key, c)
	taken := relock.NewRedisLock("held", c)
	for range rounds {
		calls := []error{plain.Lock(t.Context())}
		for range 3 {
			calls = append(calls, reentrant.Lock(t.Context()))
		}
		for range 3 {
			calls = append(calls, reentrant.Unlock(t.Context()))
		}
		for _, err := range append(calls, plain.Unlock(t.Context())) {
			if err != nil {
				t.Errorf("visible: %v", err)
			}
		}
		if err := taken.TryLock(t.Context()); !errors.Is(err, relock.ErrLockAcquiredByOthers) {
			t.Errorf("of a lock that is held: %v", err)
		}
	}
}

func TestMain(m *testing.M) { os.Exit(locktest.Run(m)) }

// newClient returns a client that is closed when the test ends.
func newClient(t testing.TB, c *relock.Client, err error) *relock.Client {
	t.Helper()
	return locktest.CloseLater(t)(c, err)
}

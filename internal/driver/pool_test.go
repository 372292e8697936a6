package driver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestMaxActiveWithoutWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s, relock.WithMaxActive(2))
	conns := locktest.Borrow(t, c, 2)
	for _, ctx := range []context.Context{t.Context(), locktest.Unbounded(t)} {
		err := c.Ping(ctx)
		require.ErrorIs(t, err, redis.ErrPoolExhausted)
		require.True(t, relock.IsRetryableErr(err))
		err = relock.NewRedisLock("k", c).Lock(ctx)
		require.ErrorIs(t, err, redis.ErrPoolExhausted)
		require.True(t, relock.IsRetryableErr(err))
	}
	err := relock.NewRedisLock("k", c, relock.WithBlockTimeout(60*time.Millisecond)).Lock(t.Context())
	require.ErrorIs(t, err, redis.ErrPoolExhausted, "the last reason seen")

	waiting := testkit.Async(t, func() error { return relock.NewRedisLock("k", c, relock.WithBlock()).Lock(t.Context()) })
	testkit.Eventually(t, 2*time.Second, func() bool { return locktest.WaitingIn(c, locktest.KeyOf(c, "k")) == 1 }, "it waits")
	locktest.PutBack(c, conns)
	require.NoError(t, testkit.ResultWithin(t, waiting, 2*time.Second), "a blocking Lock rides out a full pool")
	require.LessOrEqual(t, locktest.PoolOf(c).ActiveCount(), 2)
}

func TestMaxActiveWithWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s, relock.WithMaxActive(1), relock.WithWaitMode())
	conns := locktest.Borrow(t, c, 1)
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
	locktest.PutBack(c, conns)
	for _, result := range results {
		require.NoError(t, testkit.ResultWithin(t, result, time.Second))
	}
}

func TestWaitModeEndsWithTheDialTimeout(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s, relock.WithMaxActive(1), relock.WithWaitMode(), relock.WithDialTimeout(640*time.Millisecond))
	defer locktest.PutBack(c, locktest.Borrow(t, c, 1))
	start := time.Now()
	err := c.Ping(locktest.Unbounded(t))
	require.True(t, relock.IsRetryableErr(err), err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(start), 600*time.Millisecond)
	require.Less(t, time.Since(start), 2400*time.Millisecond)
}

func TestIdleConnections(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s, relock.WithMaxIdle(2), relock.WithIdleTimeout(50*time.Millisecond))
	locktest.Warm(t, c, 5)
	require.Equal(t, 2, locktest.PoolOf(c).IdleCount())
	time.Sleep(60 * time.Millisecond) // idle connections are closed at the next borrow
	require.NoError(t, c.Ping(t.Context()))
	require.Equal(t, 1, locktest.PoolOf(c).IdleCount())
}

// A lock and its unlock are two commands: no PING when a connection is borrowed, nothing else.
func TestTwoCommandsForAPair(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	const pairs = 50
	for name, l := range map[string]relock.Mutex{"RedisLock": relock.NewRedisLock("k", c), "ReentrantLock": relock.NewReentrantLock("k", c)} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, l.Lock(t.Context())) // makes the server know the scripts
			require.NoError(t, l.Unlock(t.Context()))
			marker := uuid.NewString()
			monitor := s.Dial(t)
			defer monitor.Close() //nolint:errcheck // nothing is pending
			_, err := monitor.Do("MONITOR")
			require.NoError(t, err)
			for i := range pairs {
				ctx := t.Context()
				if i%2 == 0 {
					ctx = locktest.Unbounded(t)
				}
				require.NoError(t, l.Lock(ctx))
				require.NoError(t, l.Unlock(ctx))
			}
			s.Do(t, "ECHO", marker)
			var sent []string
			for {
				line, err := redis.String(monitor.Receive())
				require.NoError(t, err)
				if strings.Contains(line, marker) {
					break
				}
				if _, from, _ := strings.Cut(line, "["); !strings.HasPrefix(from, "0 lua]") {
					sent = append(sent, line)
				}
			}
			require.Len(t, sent, 2*pairs)
			for _, line := range sent {
				require.NotContains(t, strings.ToUpper(line), `"PING"`)
			}
		})
	}
}

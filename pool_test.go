package relock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestMaxActiveWithoutWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithMaxActive(2))
	conns := borrow(t, c, 2)
	for _, ctx := range []context.Context{t.Context(), unbounded(t)} {
		err := c.Ping(ctx)
		require.ErrorIs(t, err, redis.ErrPoolExhausted)
		require.True(t, IsRetryableErr(err))
		err = NewRedisLock("k", c).Lock(ctx)
		require.ErrorIs(t, err, redis.ErrPoolExhausted)
		require.True(t, IsRetryableErr(err))
	}
	err := NewRedisLock("k", c, WithBlockTimeout(60*time.Millisecond)).Lock(t.Context())
	require.ErrorIs(t, err, redis.ErrPoolExhausted, "the last reason seen")

	waiting := testkit.Async(t, func() error { return NewRedisLock("k", c, WithBlock()).Lock(t.Context()) })
	testkit.Eventually(t, 2*time.Second, func() bool { return c.waiting(keyOf(c, "k")) == 1 }, "it waits")
	putBack(c, conns)
	require.NoError(t, testkit.ResultWithin(t, waiting, 2*time.Second), "a blocking Lock rides out a full pool")
	require.LessOrEqual(t, poolOf(c).ActiveCount(), 2)
}

func TestMaxActiveWithWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithMaxActive(1), WithWaitMode())
	conns := borrow(t, c, 1)
	var results []<-chan error
	for _, ctx := range []context.Context{t.Context(), unbounded(t)} {
		results = append(results,
			testkit.Async(t, func() error { return c.Ping(ctx) }),
			testkit.Async(t, func() error { return NewRedisLock(uuid.NewString(), c).TryLock(ctx) }))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Ping(ctx), context.DeadlineExceeded, "the wait for a connection ends with the context")
	for _, result := range results {
		require.Empty(t, result, "it did not wait")
	}
	putBack(c, conns)
	for _, result := range results {
		require.NoError(t, testkit.ResultWithin(t, result, time.Second))
	}
}

func TestWaitModeEndsWithTheDialTimeout(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithMaxActive(1), WithWaitMode(), WithDialTimeout(640*time.Millisecond))
	defer putBack(c, borrow(t, c, 1))
	start := time.Now()
	err := c.Ping(unbounded(t))
	require.True(t, IsRetryableErr(err), err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(start), 600*time.Millisecond)
	require.Less(t, time.Since(start), 2400*time.Millisecond)
}

func TestIdleConnections(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithMaxIdle(2), WithIdleTimeout(50*time.Millisecond))
	warm(t, c, 5)
	require.Equal(t, 2, poolOf(c).IdleCount())
	time.Sleep(60 * time.Millisecond) // idle connections are closed at the next borrow
	require.NoError(t, c.Ping(t.Context()))
	require.Equal(t, 1, poolOf(c).IdleCount())
}

// A lock and its unlock are two commands: no PING when a connection is borrowed, nothing else.
func TestTwoCommandsForAPair(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	const pairs = 50
	for name, l := range map[string]Mutex{"RedisLock": NewRedisLock("k", c), "ReentrantLock": NewReentrantLock("k", c)} {
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
					ctx = unbounded(t)
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

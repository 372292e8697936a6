package relock

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// Idle connections that a restart cut cost no error of a lock, however many there are.
func TestRestartCostsNoError(t *testing.T) {
	t.Parallel()
	for name, newLock := range map[string]func(string, *Client) Mutex{
		"RedisLock":     func(key string, c *Client) Mutex { return NewRedisLock(key, c) },
		"ReentrantLock": func(key string, c *Client) Mutex { return NewReentrantLock(key, c) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := newTestClient(t, s)
			l := newLock("k", c)
			for range 3 {
				warm(t, c, 8)
				s.Kill(t)
				s.Boot(t)
				for range 3 {
					require.NoError(t, l.TryLock(t.Context()))
					require.NoError(t, l.Unlock(t.Context()))
				}
			}
		})
	}
}

// A call ends with its context while the server does not answer, and does not cut its connection.
func TestContextEndsCallInFlight(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithMaxIdle(40))
	nothing := NewScript("return 1")
	calls := map[string]func(context.Context) error{
		"Ping":      c.Ping,
		"SetNEX":    func(ctx context.Context) error { _, err := c.SetNEX(ctx, "raw", "v", time.Minute); return err },
		"Eval":      func(ctx context.Context) error { _, err := c.Eval(ctx, nothing, nil); return err },
		"Lock":      func(ctx context.Context) error { return NewRedisLock("1", c).Lock(ctx) },
		"blocking":  func(ctx context.Context) error { return NewRedisLock("2", c, WithBlock()).Lock(ctx) },
		"Acquire":   func(ctx context.Context) error { _, err := NewRedisLock("3", c).Acquire(ctx); return err },
		"Do":        func(ctx context.Context) error { return NewRedisLock("4", c).Do(ctx, noWork) },
		"reentrant": func(ctx context.Context) error { return NewReentrantLock("5", c, WithBlock()).Lock(ctx) },
		"nested": func(ctx context.Context) error {
			return owned("me", NewReentrantLock("outer", c, WithBlock())).Lock(ctx)
		},
	}
	outer := owned("me", NewReentrantLock("outer", c))
	require.NoError(t, outer.Lock(t.Context()))
	warm(t, c, 3*len(calls))
	inspector := s.Dial(t)
	defer inspector.Close() //nolint:errcheck // nothing is pending
	before := testkit.Connections(t, inspector)
	require.GreaterOrEqual(t, len(before), 3*len(calls))

	s.Pause(t)
	var group sync.WaitGroup
	errCause := errors.New("enough")
	type result struct {
		name  string
		err   error
		is    []error
		since time.Duration
	}
	results := make(chan result, 3*len(calls))
	start := time.Now()
	run := func(ctx context.Context, name string, call func(context.Context) error, is ...error) {
		group.Go(func() {
			err := call(ctx)
			results <- result{name, err, is, time.Since(start)}
		})
	}
	deadline, cancel := context.WithDeadline(t.Context(), start.Add(100*time.Millisecond))
	defer cancel()
	caused, cancelCause := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancelCause(errCause) })
	withCause, cancelTimeout := context.WithDeadlineCause(t.Context(), start.Add(100*time.Millisecond), errCause)
	defer cancelTimeout()
	for name, call := range calls {
		run(deadline, name+", deadline", call, context.DeadlineExceeded)
		run(caused, name+", cancel with cause", call, context.Canceled, errCause)
		run(withCause, name+", deadline with cause", call, context.DeadlineExceeded, errCause)
	}
	group.Wait()
	s.Resume(t)
	close(results)
	for r := range results {
		t.Log(r.name, r.since, r.err)
		for _, is := range r.is {
			require.ErrorIs(t, r.err, is, r.name)
		}
		require.False(t, IsRetryableErr(r.err), r.name)
		require.GreaterOrEqual(t, r.since, 95*time.Millisecond, r.name)
		require.Less(t, r.since, time.Second, r.name)
	}
	for i := 1; i <= 5; i++ {
		key := strconv.Itoa(i)
		testkit.Eventually(t, 2*time.Second, func() bool { return pttl(t, s, c, key) == -2 }, "a lock that nobody was told of stays: "+key)
	}
	require.NoError(t, outer.Unlock(t.Context()))
	testkit.Eventually(t, 2*time.Second, func() bool { return pttl(t, s, c, "outer") == -2 }, "levels that nobody was told of stay")
	after := testkit.Connections(t, inspector)
	for id := range before {
		require.True(t, after[id], "connection %s was cut", id)
	}
}

func noWork(context.Context) error { return nil }

func TestNothingIsSentUnderAnEndedContext(t *testing.T) {
	t.Parallel()
	c, err := NewClient("tcp", closedPort(t), "")
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	errCause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	_, setNEX := c.SetNEX(ctx, "raw", "v", time.Minute)
	_, eval := c.Eval(ctx, NewScript("return 1"), nil)
	for _, err := range []error{
		c.Ping(ctx), setNEX, eval,
		NewRedisLock("k", c, WithBlock()).Lock(ctx), NewRedisLock("k", c).TryLock(ctx), NewReentrantLock("k", c).Do(ctx, noWork),
	} {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errCause)
		require.False(t, IsRetryableErr(err))
		require.NotContains(t, err.Error(), "refused")
	}
	require.Equal(t, 0, poolOf(c).ActiveCount())
}

func TestCommandTimeout(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	s := redistest.Start(t)
	c := newTestClient(t, s, WithCommandTimeout(timeout))
	warm(t, c, 4)
	s.Pause(t)
	defer s.Resume(t)
	for name, ctx := range map[string]context.Context{"context that can end": t.Context(), "context that cannot": unbounded(t)} {
		for _, call := range []func() error{
			func() error { return c.Ping(ctx) },
			func() error { return NewRedisLock("k", c).TryLock(ctx) },
		} {
			start := time.Now()
			err := call()
			took := time.Since(start)
			require.Error(t, err, name)
			require.True(t, IsRetryableErr(err), "%s: %v", name, err)
			require.NotErrorIs(t, err, context.DeadlineExceeded, name)
			require.GreaterOrEqual(t, took, timeout*95/100, name)
			require.Less(t, took, 2*timeout, name)
		}
	}
}

// The commands of a lock have a third of its lease, so that there is time for another attempt.
func TestLockCommandsHaveAThirdOfTheLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	warm(t, c, 2)
	s.Pause(t)
	defer s.Resume(t)
	start := time.Now()
	err := NewRedisLock("k", c, WithExpiry(900*time.Millisecond)).TryLock(unbounded(t))
	require.True(t, IsRetryableErr(err), err)
	require.GreaterOrEqual(t, time.Since(start), 295*time.Millisecond)
	require.Less(t, time.Since(start), 900*time.Millisecond)
}

// The dial timeout covers the log-in.
func TestDialTimeout(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	s := redistest.Start(t, "--requirepass", "pw")
	s.Pause(t)
	defer s.Resume(t)
	c, err := NewClient(s.Network, s.Address, "pw", WithDialTimeout(timeout), WithCommandTimeout(10*time.Second))
	require.NoError(t, err)
	start := time.Now()
	err = c.Ping(unbounded(t))
	require.True(t, IsRetryableErr(err), err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(start), timeout*95/100)
	require.Less(t, time.Since(start), 2*timeout)
	require.NoError(t, c.Close())
}

package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A call that waits is woken at its first busy key, and goes on to another one that is held by then.
func TestMultiLockWaits(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	others := sibling(t, s, c)
	keys := []string{"a", "b", "c"}
	hold := func(key string) Hold {
		h, err := NewRedisLock(key, others).Acquire(t.Context())
		require.NoError(t, err)
		return h
	}
	inQueue := func(key string) bool { return s.Do(t, "ZCARD", keyOf(c, key)+":q") == int64(1) }
	held := map[string]Hold{"a": hold("a"), "c": hold("c")}
	l := NewMultiLock(keys, c, WithBlock(), WithPollInterval(leisure))
	got := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return inQueue("a") }, "waits for its first busy key")
	require.False(t, inQueue("c"), "and for no other")
	requireFree(t, s, c, "b")
	held["b"] = hold("b")
	require.NoError(t, held["a"].Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool { return inQueue("b") && !inQueue("a") }, "goes on to the next one")
	testkit.Eventually(t, 5*time.Second, func() bool { return s.Do(t, "EXISTS", keyOf(c, "a")) == int64(0) }, "and has given the first one back")
	require.NoError(t, held["b"].Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool { return inQueue("c") && !inQueue("b") }, "and to the last")
	start := time.Now()
	require.NoError(t, held["c"].Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, got, testkit.Patience))
	t.Logf("granted %v after the last Unlock", time.Since(start))
	for _, key := range keys {
		requireHeld(t, s, c, key)
	}
	require.NoError(t, l.Unlock(t.Context()))
	requireNoQueues(t, s, c, keys...)
}

// requireNoQueues checks that nothing is left of locks and queues, at the server and in the client.
func requireNoQueues(t testing.TB, s *redistest.Server, c *Client, keys ...string) {
	t.Helper()
	for _, key := range keys {
		testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "EXISTS", keyOf(c, key), keyOf(c, key)+":q") == int64(0) }, "nothing left of "+key)
	}
	testkit.Eventually(t, testkit.Patience, func() bool {
		state := c.engine.Queue.State()
		return len(state.Lines) == 0 && state.Waits == 0
	}, "no waits are remembered")
	require.Zero(t, c.engine.State().Leases)
}

func TestMultiLockWaitEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	h, err := NewRedisLock("b", sibling(t, s, c)).Acquire(t.Context())
	require.NoError(t, err)
	keys := []string{"a", "b"}
	require.ErrorIs(t, NewMultiLock(keys, c, WithBlockTimeout(2*time.Second)).Lock(t.Context()), ErrLockAcquiredByOthers)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errMine)
	defer cancel()
	err = NewMultiLock(keys, c, WithBlock()).Lock(ctx)
	for _, want := range []error{context.DeadlineExceeded, errMine, ErrLockAcquiredByOthers} {
		require.ErrorIs(t, err, want)
	}
	require.NoError(t, h.Unlock(t.Context()))
	requireNoQueues(t, s, c, keys...)
	require.ErrorIs(t, NewMultiLock(keys, c).Lock(ctx), context.DeadlineExceeded)
}

func TestMultiLockOfAClosedClient(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	other := sibling(t, s, c)
	keys := []string{"a", "b"}
	l := NewMultiLock(keys, c, WithBlock())
	require.NoError(t, l.Lock(t.Context()))
	ctx := l.multi.Held().Context()
	waiting := testkit.Async(t, func() error { return NewMultiLock(keys, c, WithBlock()).Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "ZCARD", keyOf(c, "a")+":q") == int64(1) }, "waits")
	require.NoError(t, c.Close())
	require.ErrorIs(t, testkit.ResultWithin(t, waiting, 5*time.Second), ErrClosed)
	require.ErrorIs(t, testkit.EndedWithin(t, ctx, time.Second), ErrClosed)
	require.ErrorIs(t, l.Unlock(t.Context()), ErrClosed)
	require.ErrorIs(t, l.Lock(t.Context()), ErrClosed)
	requireHeld(t, s, other, "a")
}

func TestMultiLockQueueLimit(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	h, err := NewRedisLock("b", sibling(t, s, c)).Acquire(t.Context())
	require.NoError(t, err)
	keys := []string{"a", "b"}
	l := NewMultiLock(keys, c, WithBlock())
	waiting := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "ZCARD", keyOf(c, "b")+":q") == int64(1) }, "waits")
	require.ErrorIs(t, NewMultiLock(keys, sibling(t, s, c), WithBlock(), WithQueueLimit(1)).Lock(t.Context()), ErrQueueFull)
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))
	require.NoError(t, l.Unlock(t.Context()))
	requireNoQueues(t, s, c, keys...)
}

// Close with WithReleaseOnClose gives all keys back.
func TestMultiLockReleasedOnClose(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s, WithReleaseOnClose())
	require.NoError(t, NewMultiLock([]string{"a", "b", "c"}, c).Lock(t.Context()))
	require.NoError(t, c.Close())
	require.Equal(t, int64(0), s.Do(t, "EXISTS", keyOf(c, "a"), keyOf(c, "b"), keyOf(c, "c")))
}

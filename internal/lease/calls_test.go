package lease_test

import (
	"context"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A short lease bounds the commands of a lock, not the dial that may come
// before.
func TestSlowDialWithAShortLease(t *testing.T) {
	t.Parallel()
	const lease, dial = 900 * time.Millisecond, 450 * time.Millisecond
	c, proxy := locktest.Behind(t, redistest.Start(t), relock.WithDatabase(1))
	proxy.On(faults.Command("SELECT"), 1, faults.Delay(dial))
	start := time.Now()
	if err := relock.NewRedisLock("k", c, relock.WithExpiry(lease)).Lock(t.Context()); err != nil {
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.GreaterOrEqual(t, time.Since(start), dial+lease/3, "not for want of time of a busy machine")
	}
}

// A context also ends a call that is stuck in writing.
func TestContextEndsALargeWrite(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	c := locktest.NewTestClient(t, s, relock.WithCommandTimeout(12*time.Second))
	require.NoError(t, c.Ping(t.Context()))
	large := strings.Repeat("x", 6<<20) // the buffers have no room for it while nobody reads
	s.Pause(t)
	defer s.Resume(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cancelled := make(chan time.Time, 1)
	time.AfterFunc(100*time.Millisecond, func() {
		cancelled <- time.Now()
		cancel()
	})
	watch := testkit.NewStopwatch(t)
	_, err := c.SetNEX(ctx, "k", large, time.Second)
	// The race detector takes seconds of a busy machine to copy the value.
	watch.Check(time.Since(<-cancelled), 6*time.Second, "half of the command's own time")
	require.ErrorIs(t, err, context.Canceled)
}

// Limits that mean "none" do not overflow.
func TestHugeTimeouts(t *testing.T) {
	t.Parallel()
	const huge = time.Duration(math.MaxInt64)
	s, c := locktest.OnShared(t, relock.WithCommandTimeout(huge), relock.WithDialTimeout(huge),
		relock.WithIdleTimeout(huge), relock.WithWaitMode(), relock.WithMaxActive(1))
	require.NoError(t, locktest.AsUserPool(t, s, &redis.Pool{}, relock.WithCommandTimeout(huge)).Ping(t.Context()))

	h := locktest.Take(t, relock.NewRedisLock("k", c,
		relock.WithMaxHold(huge), relock.WithBlockTimeout(huge), relock.WithWatchdog(lockspec.MaxLease)).Acquire)
	require.NoError(t, h.Extend(t.Context(), lockspec.MaxLease))
	require.NoError(t, h.Err())
	require.ErrorIs(t, h.Extend(t.Context(), 1<<62), relock.ErrInvalid)
	require.NoError(t, h.Unlock(t.Context()))
}

// A panic in the user's Dial is an error of the call, and of a renewal.
func TestPanicInUserDial(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	var panics atomic.Bool
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { // none is idle, to be borrowed
		if panics.Load() {
			panic("dial")
		}
		return redis.Dial(s.Network, s.Address)
	}}
	c := locktest.AsUserPool(t, s, pool, relock.WithKeyPrefix(t.Name()))
	panics.Store(true)
	require.ErrorContains(t, c.Ping(t.Context()), "panicked")
	panics.Store(false)
	h := locktest.Take(t, relock.NewRedisLock("k", c, relock.WithWatchdog(2*time.Second)).Acquire)
	panics.Store(true)
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
}

// A log handler that blocks delays only those that log: calls end, and holds
// are renewed.
func TestLogHandlerThatBlocks(t *testing.T) {
	t.Parallel()
	stuck := newStuckLog(t)
	defer stuck.free()
	s, c := locktest.OnOwn(t, stuck.option(), relock.WithWatchdog(time.Minute))
	acquire := func(key string, c *relock.Client) relock.Hold {
		return locktest.Take(t, relock.NewRedisLock(key, c).Acquire)
	}
	one, other, theirs := acquire("one", c), acquire("other", c), acquire("theirs", locktest.Sibling(t, s, c))
	waiting := testkit.Async(t, func() error {
		return relock.NewRedisLock("theirs", c, relock.WithBlock()).Lock(t.Context())
	})
	testkit.Eventually(t, testkit.Patience, func() bool {
		return locktest.IsSubscribed(c, "theirs")
	}, "the subscription is there")

	s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	stuck.await(t)
	require.NoError(t,
		testkit.ResultWithin(t, testkit.Async(t, func() error { return other.Unlock(t.Context()) }), testkit.Patience))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	left := testkit.Async(t, func() error { return relock.NewRedisLock("theirs", c, relock.WithBlock()).Lock(ctx) })
	require.ErrorIs(t, testkit.ResultWithin(t, left, testkit.Patience), context.DeadlineExceeded)
	locktest.Renew(t, one, testkit.Patience)
	require.NoError(t, theirs.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience), "it polls")
	require.NoError(t, one.Unlock(t.Context()))
}

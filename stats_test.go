package relock_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestStats(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	require.Zero(t, c.Stats())
	require.Zero(t, (*relock.Client)(nil).Stats())
	require.Zero(t, (&relock.Client{}).Stats())

	one := locktest.Take(t, relock.NewRedisLock("one", c).Acquire)
	granted := time.Now()
	nested := relock.NewReentrantLock("nested", c)
	require.NoError(t, nested.Lock(t.Context()))
	require.NoError(t, nested.Lock(t.Context()))
	several := locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, c).Acquire)
	least := time.Since(granted)
	stats := c.Stats()
	require.Equal(t, 4, stats.Held, "one, nested, a, b")
	require.GreaterOrEqual(t, stats.OldestHold, least)
	require.Less(t, stats.OldestHold, time.Since(granted)+testkit.Patience)
	require.Equal(t, 1, stats.Connections)
	require.Zero(t, stats.Waiting)

	ctx, cancel := context.WithCancel(t.Context())
	var waits []<-chan error
	for _, lock := range []relock.Mutex{
		relock.NewRedisLock("one", c, relock.WithBlock()), relock.NewRedisLock("one", c, relock.WithBlock()),
		relock.NewMultiLock([]string{"a", "c"}, c, relock.WithBlock()),
		relock.NewReentrantLock("nested", c, relock.WithBlock()),
		relock.NewReentrantLock("nested", c, relock.WithBlock()),
	} {
		waits = append(waits, testkit.Async(t, func() error { return lock.Lock(ctx) }))
	}
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Waiting == len(waits) }, "all wait")
	require.Greater(t, c.Stats().Connections, 1, "waiters have separate connections")
	cancel()
	for _, wait := range waits {
		require.ErrorIs(t, testkit.ResultWithin(t, wait, testkit.Patience), context.Canceled)
	}
	require.Zero(t, c.Stats().Waiting)

	require.NoError(t, several.Unlock(t.Context()))
	require.NoError(t, nested.Unlock(t.Context()))
	require.Equal(t, 2, c.Stats().Held)
	require.NoError(t, nested.Unlock(t.Context()))
	require.NoError(t, one.Unlock(t.Context()))
	stats = c.Stats()
	require.Equal(t, relock.Stats{Connections: stats.Connections, Renewals: stats.Renewals}, stats)
}

// Renewals, those that fail, and losses are counted.
func TestStatsOfRenewals(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t, relock.WithWatchdog(time.Hour))
	h := locktest.Take(t, relock.NewRedisLock("k", c).Acquire)
	require.NoError(t, h.Extend(t.Context(), time.Hour))
	require.EqualValues(t, 1, c.Stats().Renewals, "an Extend counts")
	locktest.RenewNow(h)
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Renewals >= 2 }, "renewed")
	require.Zero(t, c.Stats().RenewalErrors)
	s.Pause(t)
	locktest.RenewNow(h)
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().RenewalErrors > 0 }, "no answer")
	s.Resume(t)
	several := locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, c).Acquire)
	require.Zero(t, c.Stats().Losses)
	s.Do(t, "FLUSHALL")
	for _, h := range []relock.Hold{h, several} {
		locktest.RenewNow(h)
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
	}
	testkit.Eventually(t, testkit.Patience,
		func() bool { return c.Stats().Losses == 3 && c.Stats().Held == 0 }, "k, a and b")
	lasting := locktest.Take(t, relock.NewRedisLock("k", c).Acquire)
	require.NoError(t, c.Close())
	require.ErrorIs(t, lasting.Err(), relock.ErrClosed)
	require.EqualValues(t, 3, c.Stats().Losses, "Close is no loss")
	require.Zero(t, c.Stats().Held)
}

// The connections of a user's pool are those of the pool.
func TestStatsOfAUsersPool(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	pool := &redis.Pool{MaxIdle: 3}
	c := locktest.AsUserPool(t, s, pool)
	conn := pool.Get()
	defer conn.Close() //nolint:errcheck // nothing is pending
	require.NoError(t, c.Ping(t.Context()))
	require.Equal(t, pool.ActiveCount(), c.Stats().Connections)
	require.Equal(t, 2, c.Stats().Connections)
}

// Close says which locks it leaves in Redis, and until when, but not if it
// releases them.
func TestCloseSaysWhatItLeaves(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	hold := func(n int, opts ...relock.ClientOption) *locktest.LogBuffer {
		var log locktest.LogBuffer
		c := locktest.NewTestClient(t, s, append(opts, log.Option())...)
		for i := range n {
			require.NoError(t, relock.NewRedisLock(fmt.Sprintf("%d of %d", i, n), c).Lock(t.Context()))
		}
		unlocked := relock.NewReentrantLock("unlocked", c)
		require.NoError(t, errors.Join(unlocked.Lock(t.Context()), unlocked.Unlock(t.Context())))
		require.NoError(t, c.Close())
		return &log
	}
	require.Zero(t, hold(0).Lines("level=WARN"))
	start := time.Now()
	one := hold(1)
	require.Equal(t, 1, one.Lines("level=WARN"))
	require.Equal(t, 1, one.Lines(`msg="relock: closed with 1 lock held" keys="[0 of 1]" free_in=`))
	left, passed := freeIn(t, one), time.Since(start)
	require.True(t, left <= 30*time.Second && left > 30*time.Second-passed-100*time.Millisecond,
		"%v, after %v", left, passed)
	require.Equal(t, 1, hold(3).Lines(`msg="relock: closed with 3 locks held" keys="[0 of 3 1 of 3 2 of 3]"`))
	require.Equal(t, 1, hold(12).Lines(`closed with 12 locks held`, ` of 12 and 2 more]"`), "ten are named")
	require.Zero(t, hold(2, relock.WithReleaseOnClose()).Lines("level=WARN"))
}

// freeIn returns in how long the last lock is free, as Close has logged it.
func freeIn(t testing.TB, log *locktest.LogBuffer) time.Duration {
	t.Helper()
	found := regexp.MustCompile(`free_in=(\S+)`).FindStringSubmatch(log.String())
	require.NotNil(t, found, log.String())
	left, err := time.ParseDuration(found[1])
	require.NoError(t, err)
	return left
}

// A lock that a minimum hold keeps longer than its lease is free only then.
func TestCloseCountsAMinimumHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	var log locktest.LogBuffer
	c := locktest.NewTestClient(t, s, log.Option())
	require.NoError(t, relock.NewRedisLock("k", c, relock.WithMinHold(time.Hour)).Lock(t.Context()))
	require.NoError(t, c.Close())
	require.Equal(t, 1, log.Lines("closed with 1 lock held"))
	require.Greater(t, freeIn(t, &log), 59*time.Minute)
}

// Remaining is the time until ValidUntil while the hold is valid, and 0 once it
// is over.
func TestRemaining(t *testing.T) {
	t.Parallel()
	for _, kind := range oneKeyKinds {
		c := locktest.NewTestClient(t, redistest.Shared(t))
		h := locktest.Take(t, acquirerOf(kind, c, relock.WithExpiry(time.Minute)))
		before := time.Until(h.ValidUntil())
		got := h.Remaining()
		require.LessOrEqual(t, got, before)
		require.GreaterOrEqual(t, got, time.Until(h.ValidUntil()))
		require.NoError(t, h.Extend(t.Context(), time.Hour))
		require.Greater(t, h.Remaining(), 50*time.Minute)
		require.NoError(t, h.Unlock(t.Context()))
		require.Zero(t, h.Remaining())

		h = takeInTime(t, acquirerOf(kind, c, relock.WithExpiry(50*time.Millisecond)))
		<-h.Context().Done()
		require.Zero(t, h.Remaining(), "not below")
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	}
}

package conns_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// wrapped is a connection of the user's that can do the least: it knows
// timeouts, but no contexts.
type wrapped struct{ redis.ConnWithTimeout }

// tracing is what a wrapper that was written without a thought of timeouts
// looks like.
type tracing struct{ redis.Conn }

// A pool whose connections know no timeouts is refused by the first call,
// whether it takes one from the pool or shares one with others.
func TestUserPoolWithoutTimeouts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dial := conns.DialWrapped(s.Network, s.Address, func(conn redis.ConnWithTimeout) redis.Conn { return tracing{conn} })
	c := locktest.AsUserPool(t, s, &redis.Pool{Dial: dial})
	for range 2 {
		err := relock.NewRedisLock("k", c).TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrInvalid)
		require.ErrorContains(t, err, "pool: its connections do not implement redis.ConnWithTimeout")
		require.False(t, relock.IsRetryableErr(err))
		locktest.Sharing(t, c)
	}
	require.Empty(t, s.Do(t, "KEYS", "*"))
}

func TestUserPool(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dial := func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }
	wrap := func(conn redis.ConnWithTimeout) redis.Conn { return wrapped{conn} }
	for name, pool := range map[string]*redis.Pool{
		"Dial":                {Dial: dial},
		"DialContext":         {DialContext: func(context.Context) (redis.Conn, error) { return dial() }},
		"wrapped connections": {Dial: conns.DialWrapped(s.Network, s.Address, wrap)},
	} {
		t.Run(name, func(t *testing.T) {
			pool.MaxIdle = 5
			c := locktest.AsUserPool(t, s, pool)
			require.NoError(t, errors.Join(c.Ping(t.Context()), c.Ping(locktest.Unbounded(t))))
			h := locktest.Take(t, relock.NewReentrantLock(name, c).Acquire)
			locktest.RequireRenewed(t, h)
			require.NoError(t, h.Unlock(t.Context()))
			require.NoError(t, c.Close())
			locktest.RequireClosed(t, c)

			conn := pool.Get()
			_, err := conn.Do("PING")
			require.NoError(t, err, "Close leaves it open")
			require.NoError(t, conn.Close())
			require.NoError(t, pool.Close())
		})
	}
}

// A Dial of the user's that does not end takes no longer than one of ours: the
// time limits of a lock hold all the same.
func TestUserDialThatBlocks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	testkit.Each(t, map[string]bool{
		"Dial": false, "DialContext": true,
	}, func(t *testing.T, name string, knowsContext bool) {
		b := &locktest.Closing{S: s, Block: make(chan struct{})}
		b.UserClient(t, knowsContext)
		defer func() { require.NoError(t, b.Pool.Close()) }()
		defer func() { require.NoError(t, b.C.Close()) }()
		defer close(b.Block)
		const lease = 3 * time.Second
		l := relock.NewRedisLock(name, b.C, relock.WithWatchdog(lease))
		require.NoError(t, l.Lock(t.Context()))
		b.Blocks.Store(true)
		defer putBack(b.C, []redis.Conn{b.Pool.Get()})
		watch := testkit.NewStopwatch(t)
		err := testkit.ResultWithin(t, testkit.Async(t, func() error { return l.Unlock(locktest.Unbounded(t)) }),
			testkit.Patience)
		require.Error(t, err, "Unlock")
		watch.Within(lease)
		watch = testkit.NewStopwatch(t)
		err = testkit.ResultWithin(t, testkit.Async(t, func() error {
			return relock.NewRedisLock("other", b.C, relock.WithWatchdog(lease)).TryLock(locktest.Unbounded(t))
		}), testkit.Patience)
		require.Error(t, err, "TryLock")
		watch.Within(2 * driver.MinConnect)
	})
}

// The user closes the pool while a lock is held. The hold goes on, over the
// engine's own connections.
func TestUserClosesThePool(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]bool{"fail": false, "wait": true}, func(t *testing.T, _ string, wait bool) {
		s := redistest.Start(t)
		pool := &redis.Pool{MaxIdle: 3, MaxActive: 3, Wait: wait}
		c := locktest.AsUserPool(t, s, pool)
		h := locktest.Acquire(t, c, "k")
		require.NoError(t, pool.Close())
		locktest.RequireRenewed(t, h)
		locktest.RequireHeld(t, s, c, "k")

		before := s.Info(t, "stats", "total_connections_received")
		for _, l := range []relock.Mutex{
			relock.NewRedisLock("other", c, relock.WithBlock()), relock.NewReentrantLock("other", c, relock.WithBlock()),
		} {
			watch := testkit.NewStopwatch(t)
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
			err := l.Lock(ctx)
			cancel()
			require.ErrorContains(t, err, "closed pool")
			require.False(t, relock.IsRetryableErr(err))
			watch.Within(time.Second)
		}
		require.LessOrEqual(t, s.Info(t, "stats", "total_connections_received")-before, int64(3), "it spins")
		require.NoError(t, h.Unlock(t.Context()), "the retrier's connection does it")
		locktest.RequireFree(t, s, c, "k")
	})
}

// Callers that take every connection starve neither renewals nor releases.
func TestFullPoolDoesNotStarveTheWatchdog(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string][]relock.ClientOption{
		"fail": {relock.WithMaxActive(4)},
		"wait": {relock.WithMaxActive(4), relock.WithWaitMode()},
	}, func(t *testing.T, _ string, opts []relock.ClientOption) {
		s, c := locktest.OnOwn(t, opts...)
		lease := relock.WithWatchdog(2400 * time.Millisecond) // an Unlock has a third of it, on a loaded machine too
		plain := locktest.Acquire(t, c, "p", lease)
		reentrant := locktest.Take(t, relock.NewReentrantLock("r", c, lease).Acquire)
		defer putBack(c, borrow(t, c, 4))
		for _, h := range []relock.Hold{plain, reentrant} {
			locktest.RequireRenewed(t, h)
			require.NoError(t, h.Unlock(t.Context()))
		}
		locktest.RequireFree(t, s, c, "p")
		locktest.RequireFree(t, s, c, "r")
	})
}

// Pairs leave nothing behind. Not parallel: it counts goroutines and bytes.
func TestPairsLeaveNothing(t *testing.T) {
	s, c := locktest.OnOwn(t)
	const workers, pairs = 4, 2500
	round := func(n int) {
		conns.Together(workers, func(i int) {
			plain, reentrant := relock.NewRedisLock(fmt.Sprint("p", i), c), relock.NewReentrantLock(fmt.Sprint("r", i), c)
			for k := range n {
				var l relock.Mutex = plain
				if k%2 == 0 {
					l = reentrant
				}
				ctx := t.Context()
				if k%4 < 2 {
					ctx = locktest.Unbounded(t)
				}
				if err := errors.Join(l.Lock(ctx), l.Unlock(ctx)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	round(50)
	goroutines, bytes := runtime.NumGoroutine(), heap()
	round(pairs)
	testkit.Eventually(t, testkit.Patience,
		func() bool { return runtime.NumGoroutine() <= goroutines+5 }, "goroutines stay")
	require.Less(t, heap()-bytes, int64(1<<20), "bytes stay")
	require.Zero(t, c.Stats().Held)
	require.Empty(t, locktest.Engine(c).Retrier.Unconfirmed())
	require.Equal(t, int64(0), s.Do(t, "DBSIZE"))
}

// What locks of a user's pool share lies outside that pool.
func TestSharedConnectionOfAUserPool(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := &redis.Pool{IdleTimeout: time.Minute, MaxConnLifetime: time.Hour, MaxActive: 1}
	c := locktest.Sharing(t, locktest.AsUserPool(t, s, pool))
	conns.Together(50, func(n int) {
		l := relock.NewRedisLock(fmt.Sprint(n), c)
		if err := errors.Join(l.Lock(t.Context()), l.Unlock(t.Context())); err != nil {
			t.Error(err)
		}
	})
	require.Zero(t, pool.ActiveCount())
}

// stuckClose is a connection of the user's whose Close blocks, once it has
// subscribed.
type stuckClose struct {
	redis.ConnWithTimeout
	subscribed    atomic.Bool
	called, freed chan struct{}
	once          *sync.Once
}

func (c *stuckClose) Send(command string, args ...any) error {
	if command == "SUBSCRIBE" {
		c.subscribed.Store(true)
	}
	return c.ConnWithTimeout.Send(command, args...)
}

func (c *stuckClose) Close() error {
	if c.subscribed.Load() {
		c.once.Do(func() { close(c.called) })
		<-c.freed
	}
	return c.ConnWithTimeout.Close()
}

// A subscription that is silent is cut. A Close of the user's that blocks then
// keeps up neither the client's calls, which learn by polls what no message
// says, nor its own Close.
func TestCloseOfAConnectionThatBlocks(t *testing.T) {
	t.Parallel()
	s := locktest.NewServerWithScripts(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Command("SUBSCRIBE"), 1, faults.ThenSilent)
	called, freed, once := make(chan struct{}), make(chan struct{}), &sync.Once{}
	pool := &redis.Pool{
		MaxIdle: 3,
		Dial: conns.DialWrapped(proxy.Network, proxy.Address, func(conn redis.ConnWithTimeout) redis.Conn {
			return &stuckClose{ConnWithTimeout: conn, called: called, freed: freed, once: once}
		}),
	}
	other := locktest.NewTestClient(t, s)
	c := locktest.AsUserPool(t, s, pool, relock.WithKeyPrefix(locktest.Prefix(other)))
	defer close(freed)
	theirs := relock.NewRedisLock("theirs", other)
	require.NoError(t, theirs.Lock(t.Context()))
	waiting := testkit.Async(t, func() error {
		return relock.NewRedisLock("theirs", c, relock.WithBlock()).Lock(t.Context())
	})
	_, ok := testkit.Await(called, testkit.Patience)
	require.True(t, ok, "the subscription is not cut")
	more := testkit.Async(t, func() error {
		return relock.NewRedisLock("theirs", c, relock.WithBlockTimeout(50*time.Millisecond)).Lock(t.Context())
	})
	require.ErrorIs(t, testkit.ResultWithin(t, more, testkit.Patience), relock.ErrLockAcquiredByOthers)
	require.NoError(t, theirs.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))
	require.NoError(t, testkit.ResultWithin(t, testkit.Async(t, c.Close), testkit.Patience))
}

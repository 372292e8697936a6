package relock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
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
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		conn, err := redis.Dial(s.Network, s.Address)
		return tracing{conn}, err
	}}
	defer pool.Close() //nolint:errcheck // only to end its connections
	c, err := NewClientPool(pool)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for range 2 {
		err := NewRedisLock("k", c).TryLock(t.Context())
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "pool: its connections do not implement redis.ConnWithTimeout")
		require.False(t, IsRetryableErr(err))
		sharing(c)
	}
	require.Empty(t, s.Do(t, "KEYS", "*"))
}

func TestUserPool(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dial := func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }
	for name, pool := range map[string]*redis.Pool{
		"Dial":        {Dial: dial},
		"DialContext": {DialContext: func(context.Context) (redis.Conn, error) { return dial() }},
		"wrapped connections": {Dial: func() (redis.Conn, error) {
			conn, err := dial()
			if err != nil {
				return nil, err
			}
			return wrapped{conn.(redis.ConnWithTimeout)}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pool.MaxIdle = 5
			c, err := NewClientPool(pool, WithKeyPrefix("test:"))
			require.NoError(t, err)
			require.NoError(t, c.Ping(t.Context()))
			require.NoError(t, c.Ping(unbounded(t)))
			l := NewReentrantLock(name, c, WithWatchdog(2400*time.Millisecond))
			h, err := l.Acquire(t.Context())
			require.NoError(t, err)
			select {
			case <-h.Context().Done():
			case <-time.After(3200 * time.Millisecond):
			}
			require.NoError(t, h.Err())
			require.NoError(t, h.Unlock(t.Context()))
			require.NoError(t, c.Close())
			requireClosed(t, c)

			conn := pool.Get()
			_, err = conn.Do("PING")
			require.NoError(t, err, "Close leaves it open")
			require.NoError(t, conn.Close())
			require.NoError(t, pool.Close())
		})
	}
}

// A Dial of the user's that does not end takes no longer than one of ours: the time limits of a lock hold all the same.
func TestUserDialThatBlocks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, knowsContext := range map[string]bool{"Dial": false, "DialContext": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &closing{s: s, block: make(chan struct{})}
			b.userClient(knowsContext)(t)
			defer func() { require.NoError(t, b.pool.Close()) }()
			defer func() { require.NoError(t, b.c.Close()) }()
			defer close(b.block)
			const lease = 3 * time.Second
			l := NewRedisLock(name, b.c, WithWatchdog(lease))
			require.NoError(t, l.Lock(t.Context()))
			b.blocks.Store(true)
			defer putBack(b.c, []redis.Conn{b.pool.Get()})
			err := testkit.ResultWithin(t, testkit.Async(t, func() error { return l.Unlock(unbounded(t)) }), lease)
			require.Error(t, err, "Unlock")
			err = testkit.ResultWithin(t, testkit.Async(t, func() error {
				return NewRedisLock("other", b.c, WithWatchdog(lease)).TryLock(unbounded(t))
			}), 2*driver.MinConnect)
			require.Error(t, err, "TryLock")
		})
	}
}

// The user closes the pool while a lock is held. The hold goes on, over the engine's own connections.
func TestUserClosesThePool(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]bool{"fail": false, "wait": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			pool := &redis.Pool{MaxIdle: 3, MaxActive: 3, Wait: wait, Dial: func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }}
			c, err := NewClientPool(pool, WithKeyPrefix("test:"))
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			const lease = 2400 * time.Millisecond
			h, err := NewRedisLock("k", c, WithWatchdog(lease)).Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, pool.Close())
			select {
			case <-h.Context().Done():
			case <-time.After(3 * lease):
			}
			require.NoError(t, h.Err())
			requireHeld(t, s, c, "k")

			before := scripttest.InfoField(t, s, "stats", "total_connections_received")
			for _, l := range []Mutex{NewRedisLock("other", c, WithBlock()), NewReentrantLock("other", c, WithBlock())} {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				err := l.Lock(ctx)
				cancel()
				require.ErrorContains(t, err, "closed pool")
				require.False(t, IsRetryableErr(err))
				require.Less(t, time.Since(start), time.Second)
			}
			require.LessOrEqual(t, scripttest.InfoField(t, s, "stats", "total_connections_received")-before, int64(3), "it spins")
			require.NoError(t, h.Unlock(t.Context()), "the retrier's connection does it")
			requireFree(t, s, c, "k")
		})
	}
}

// Callers that take every connection starve neither renewals nor releases.
func TestFullPoolDoesNotStarveTheWatchdog(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]ClientOption{
		"fail": {WithMaxActive(4)},
		"wait": {WithMaxActive(4), WithWaitMode()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := newTestClient(t, s, opts...)
			const lease = 2400 * time.Millisecond // an Unlock has a third of it, on a loaded machine too
			plain, err := NewRedisLock("p", c, WithWatchdog(lease)).Acquire(t.Context())
			require.NoError(t, err)
			reentrant, err := NewReentrantLock("r", c, WithWatchdog(lease)).Acquire(t.Context())
			require.NoError(t, err)
			defer putBack(c, borrow(t, c, 4))
			select {
			case <-plain.Context().Done():
			case <-reentrant.Context().Done():
			case <-time.After(3 * lease):
			}
			for _, h := range []Hold{plain, reentrant} {
				require.NoError(t, h.Err())
				require.NoError(t, h.Unlock(t.Context()))
			}
			requireFree(t, s, c, "p")
			requireFree(t, s, c, "r")
		})
	}
}

// Pairs leave nothing behind. Not parallel: it counts goroutines and bytes.
func TestPairsLeaveNothing(t *testing.T) {
	s := redistest.Start(t)
	c := newTestClient(t, s)
	const workers, pairs = 4, 2500
	round := func(n int) {
		var group sync.WaitGroup
		for i := range workers {
			group.Go(func() {
				plain, reentrant := NewRedisLock(fmt.Sprint("p", i), c), NewReentrantLock(fmt.Sprint("r", i), c)
				for k := range n {
					var l Mutex = plain
					if k%2 == 0 {
						l = reentrant
					}
					ctx := t.Context()
					if k%4 < 2 {
						ctx = unbounded(t)
					}
					if err := l.Lock(ctx); err != nil {
						t.Error(err)
						return
					}
					if err := l.Unlock(ctx); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
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
	testkit.Eventually(t, time.Second, func() bool { return runtime.NumGoroutine() <= goroutines+5 }, "goroutines stay")
	require.Less(t, heap()-bytes, int64(1<<20), "bytes stay")
	require.Zero(t, c.engine.State().Leases)
	require.Zero(t, c.engine.State().Owners)
	require.Empty(t, c.engine.Watchdog().Pending())
	require.Empty(t, c.engine.Retrier.Pending())
	require.Equal(t, int64(0), s.Do(t, "DBSIZE"))
}

// What locks of a user's pool share lies outside that pool.
func TestSharedConnectionOfAUserPool(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := &redis.Pool{IdleTimeout: time.Minute, MaxConnLifetime: time.Hour, MaxActive: 1, Dial: func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }}
	defer pool.Close() //nolint:errcheck // nothing is in it
	c, err := NewClientPool(pool)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	sharing(c)
	var group sync.WaitGroup
	for n := range 50 {
		group.Go(func() {
			l := NewRedisLock(fmt.Sprint(n), c)
			if err := errors.Join(l.Lock(t.Context()), l.Unlock(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Zero(t, pool.ActiveCount())
}

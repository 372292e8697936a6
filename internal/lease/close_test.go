package lease_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// TestClose is not parallel: it counts milliseconds and goroutines.
func TestClose(t *testing.T) {
	users := func(b *locktest.Closing, t *testing.T) { b.UserClient(t, false) }
	usersContext := func(b *locktest.Closing, t *testing.T) { b.UserClient(t, true) }
	own := func(b *locktest.Closing, t *testing.T) { b.OwnClient(t) }
	few := func(b *locktest.Closing, t *testing.T) {
		b.OwnClient(t, relock.WithMaxActive(3), relock.WithWaitMode())
	}
	nothing := func(*testing.T, *locktest.Closing) {}
	pause := func(t *testing.T, b *locktest.Closing) { b.S.Pause(t) }
	kill := func(t *testing.T, b *locktest.Closing) { b.S.Kill(t) }
	occupy := func(t *testing.T, b *locktest.Closing) { locktest.Occupy(t, b.S, b.C, 3) }
	for _, tt := range []struct {
		name  string
		setup func(*locktest.Closing, *testing.T)
		spoil func(*testing.T, *locktest.Closing)
		alive bool // calls in flight may succeed before Close
	}{
		{"idle server", own, nothing, true},
		{"paused server", own, pause, false},
		{"full pool in wait mode", few, occupy, false},
		{"server gone", own, kill, true},
		{"user's pool", users, nothing, true},
		{"user's pool, paused server", users, pause, false},
		{"user's pool, Dial blocks", users, blockDials, false},
		{"user's pool, Dial and engine's Dial block", users, blockEngine, false},
		{"user's pool, DialContext and engine's DialContext block", usersContext, blockEngine, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &locktest.Closing{S: redistest.Start(t), Block: make(chan struct{})}
			leaks := goleak.IgnoreCurrent()
			tt.setup(b, t)
			closeEndsAll(t, b, tt.spoil, tt.alive)

			b.Unblock()
			for _, conn := range b.Taken {
				_ = conn.Close() // back to the pool
			}
			switch tt.name {
			case "server gone":
			case "paused server", "user's pool, paused server":
				b.S.Resume(t)
				fallthrough
			default:
				inspector := b.S.Dial(t)
				defer inspector.Close() //nolint:errcheck // nothing is pending
				if b.Pool != nil {
					testkit.Eventually(t, testkit.Patience, func() bool { // after those that were killed
						conn := b.Pool.Get()
						defer conn.Close() //nolint:errcheck // its pool discards it
						_, err := conn.Do("PING")
						return err == nil
					}, "the user's pool stays open")
					require.NoError(t, b.Pool.Close())
				}
				locktest.EventuallyWithin(t, time.Second,
					func() bool { return len(redistest.Connections(t, inspector)) == 0 }, "connections stay")
			}
			goleak.VerifyNone(t, leaks)
		})
	}
}

// blockDials makes the user's dials block. It takes the idle connections away
// until all calls that need one dial.
func blockDials(t *testing.T, b *locktest.Closing) {
	b.Blocks.Store(true)
	for b.Pool.IdleCount() > 0 { // while nobody else wants one: a Get that came too late would dial, and never return
		b.Taken = append(b.Taken, b.Pool.Get())
	}
	for range 4 {
		testkit.Async(t, func() error {
			for b.C.Ping(t.Context()) == nil { // until it finds no connection that is idle
			}
			return nil
		})
	}
	b.EndAtCleanup(t)
	testkit.Eventually(t, testkit.Patience, func() bool {
		dialling := b.Pool.ActiveCount() - len(b.Taken)
		return dialling >= 4 && int(b.Stuck.Load()) >= dialling
	}, "dials do not block")
}

// blockEngine makes the watchdog dial too.
func blockEngine(t *testing.T, b *locktest.Closing) {
	h := locktest.Take(t, relock.NewRedisLock("renewed", b.C).Acquire)
	blockDials(t, b)
	stuck := b.Stuck.Load()
	b.S.Do(t, "CLIENT", "KILL", "TYPE", "normal") // it may have dialled before
	leaseOf(h).RenewNow()
	testkit.Eventually(t, testkit.Patience, func() bool { return b.Stuck.Load() > stuck }, "the watchdog does not dial")
}

func closeEndsAll(t *testing.T, b *locktest.Closing, spoil func(*testing.T, *locktest.Closing), alive bool) {
	c := b.C
	h := locktest.Take(t, relock.NewRedisLock("held", c, relock.WithWatchdog(time.Minute)).Acquire)
	nested := locktest.Take(t, locktest.Owned("me", relock.NewReentrantLock("nested", c)).Acquire)
	shared := relock.NewRedisLock("shared", c, relock.WithBlock())
	require.NoError(t, shared.Lock(t.Context()))
	contexts := []context.Context{t.Context(), locktest.Unbounded(t)}
	var waits, over, inFlight []*locktest.Timed
	for _, ctx := range contexts {
		for _, lock := range []relock.Mutex{
			relock.NewRedisLock("held", c, relock.WithBlock()), shared, relock.NewReentrantLock("nested", c, relock.WithBlock()),
		} {
			waits = append(waits, locktest.Begin(t, func() error { return lock.Lock(ctx) }))
		}
	}
	for _, h := range []relock.Hold{h, nested} {
		over = append(over, locktest.Begin(t, func() error {
			_, _ = testkit.Await(h.Context().Done(), testkit.Patience)
			return context.Cause(h.Context())
		}))
	}
	b.EndAtCleanup(t)
	pool := locktest.PoolOf(c).Redis
	testkit.Eventually(t, testkit.Patience, func() bool {
		quiet := pool.ActiveCount() == pool.IdleCount() // no connection is about to be put back
		return c.Stats().Waiting == len(waits) && locktest.Calls(t, b.S, "zadd") >= 3 &&
			locktest.Calls(t, b.S, "subscribe") == 1 && quiet
	}, "nobody waits")
	spoil(t, b)
	for _, ctx := range contexts {
		inFlight = append(inFlight,
			locktest.Begin(t, func() error { return c.Ping(ctx) }),
			locktest.Begin(t, func() error { _, err := c.SetNEX(ctx, uuid.NewString(), "v", time.Second); return err }),
			locktest.Begin(t, func() error { return relock.NewRedisLock(uuid.NewString(), c).Lock(ctx) }),
			locktest.Begin(t, func() error { return nested.Extend(ctx, 30*time.Second) }))
	}
	b.EndAtCleanup(t)
	time.Sleep(20 * time.Millisecond) // so that the calls are under way: nothing shows it

	half := locktest.SetAlarm(t, time.Now().Add(locktest.CloseLimit/2)) // as late as whatever is to end by then
	closed := []*locktest.Timed{locktest.Begin(t, c.Close), locktest.Begin(t, c.Close), locktest.Begin(t, c.Close)}
	for i, one := range closed {
		require.NoError(t, one.End(half), "Close %d", i)
	}
	for i, one := range append(waits, over...) {
		require.ErrorIs(t, one.End(half), relock.ErrClosed, "wait %d", i)
	}
	for i, one := range inFlight {
		if err := one.End(half); !alive {
			require.ErrorIs(t, err, relock.ErrClosed, "call %d", i)
		}
	}
	watch := testkit.NewStopwatch(t)
	for _, h := range []relock.Hold{h, nested} {
		require.ErrorIs(t, h.Err(), relock.ErrClosed)
		require.Zero(t, h.ValidUntil())
		require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrClosed)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrClosed)
	}
	require.ErrorIs(t, shared.Unlock(t.Context()), relock.ErrClosed)
	watch.Within(locktest.CloseLimit / 2)
	locktest.RequireClosed(t, c)
}

func TestCloseOfAnUnusedClient(t *testing.T) {
	t.Parallel()
	c, err := relock.NewClient("tcp", locktest.ClosedPort(t), "")
	require.NoError(t, err)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() { require.NoError(t, c.Close()) })
	}
	group.Wait()
	locktest.RequireClosed(t, c)
	for _, invalid := range []*relock.Client{nil, {}} {
		require.ErrorIs(t, invalid.Close(), relock.ErrInvalid)
		require.ErrorIs(t, invalid.Ping(t.Context()), relock.ErrInvalid)
	}
}

// A release that Close gives up is logged with its key, and with nothing else.
func TestCloseLogsWhatIsPending(t *testing.T) {
	t.Parallel()
	var log locktest.LogBuffer
	s, c := locktest.OnOwn(t, log.Option())
	l := relock.NewRedisLock("my key", c)
	require.NoError(t, l.Lock(t.Context()))
	s.Pause(t)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrUnconfirmed)
	require.NoError(t, c.Close())
	s.Resume(t)
	require.Contains(t, log.String(), `key="my key"`)
	require.Contains(t, log.String(), "the key may stay until its lease ends")
}

// stubborn is a connection of the user's that sends when it is unblocked, also
// when it was closed before.
type stubborn struct {
	redis.ConnWithTimeout
	*locktest.Closing
}

func (c stubborn) Flush() error {
	if c.Blocks.Load() {
		c.Stuck.Add(1)
		<-c.Block
	}
	return c.ConnWithTimeout.Flush()
}

// A release that is under way on a connection that nothing can cut is logged,
// too.
func TestCloseLogsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	var log locktest.LogBuffer
	b := &locktest.Closing{S: redistest.Start(t), Block: make(chan struct{})}
	b.Pool = &redis.Pool{Dial: func() (redis.Conn, error) {
		conn, err := b.Dial()
		if err != nil {
			return nil, err
		}
		return stubborn{conn.(redis.ConnWithTimeout), b}, nil
	}}
	c, err := relock.NewClientPool(b.Pool, log.Option())
	require.NoError(t, err)
	b.C = c
	b.EndAtCleanup(t)
	h := locktest.Take(t, relock.NewRedisLock("my key", c).Acquire)
	first := locktest.Take(t, relock.NewRedisLock("first", c).Acquire)
	leaseOf(first).Release(time.Now()) // opens the connection for it
	testkit.Eventually(t, testkit.Patience,
		func() bool { return b.S.Do(t, "EXISTS", locktest.KeyOf(c, "first")) == int64(0) }, "released")
	b.Blocks.Store(true)
	leaseOf(h).Release(time.Now())
	testkit.Eventually(t, testkit.Patience, func() bool { return b.Stuck.Load() == 1 }, "is being sent")
	require.NoError(t, c.Close())
	require.Contains(t, log.String(), `key="my key"`)
	require.Contains(t, log.String(), "the key may stay until its lease ends")
}

// Close takes its own calls out of the queue before it releases the lock. The
// lock goes to the waiter behind them.
func TestReleaseOnCloseBesideItsOwnWaits(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 1)
		closing := locktest.Sibling(t, q.Server, q.Clients[0], relock.WithReleaseOnClose())
		q.Take(closing)
		const poll = time.Minute // what is reserved for it would stay reserved for four times as long
		own := q.WaitNext(context.Background(), 0, closing, relock.WithPollInterval(poll), relock.WithWatchdog(4*poll))
		q.AwaitSubscribed(closing)
		next := q.WaitNext(context.Background(), 1, q.Clients[0])
		q.AwaitSubscribed(q.Clients[0])
		require.NoError(t, closing.Close())
		require.ErrorIs(t, own.End(), relock.ErrClosed)
		q.Unlock(next.Granted())
		q.RequireNothingLeft(poll)
	})
}

// What the retrier has not sent yet, Close sends.
func TestReleaseOnCloseOfAPlannedRelease(t *testing.T) {
	t.Parallel()
	var log locktest.LogBuffer
	s, c := locktest.OnShared(t, relock.WithReleaseOnClose(), log.Option())
	h := locktest.Take(t, relock.NewRedisLock("k", c).Acquire)
	leaseOf(h).Release(time.Now().Add(time.Hour))
	require.NoError(t, c.Close())
	locktest.RequireFree(t, s, c, "k")
	require.Empty(t, log.String(), "logged as not confirmed")
}

// Clients that are closed at the same time release all nodes of a RedLock, also
// the one whose member the Close of another client has ended.
func TestReleaseOnCloseOfARedLock(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3), relock.WithReleaseOnClose())
	h := locktest.Take(t, b.Lock(b.Clients).Acquire)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(locktest.Level(h).Members()) == 3 },
		"all nodes grant it")
	last := b.Clients[2]
	var others []*lease.Hold // to one of them its Close comes first, but for one time in 21
	for _, other := range takeMany(t, last, 20) {
		others = append(others, locktest.Level(other))
	}
	goOn := sync.OnceFunc(freeze(others))
	closed := testkit.Async(t, last.Close)
	t.Cleanup(goOn) // before that is waited for
	<-locktest.Engine(last).Life.Done()
	for _, c := range b.Clients[:2] {
		require.NoError(t, c.Close())
	}
	require.ErrorIs(t, h.Err(), relock.ErrClosed)
	goOn()
	require.NoError(t, testkit.ResultWithin(t, closed, testkit.Patience))
	require.Zero(t, b.HeldNodes())
}

// An acquire whose caller has left is released by Close as well, by default
// too: its caller has returned without the lock.
func TestCloseFreesAnAbandonedAcquire(t *testing.T) {
	s := locktest.NewServerWithScripts(t)
	p := faults.Start(t, s.Network, s.Address)
	c, err := relock.NewClient(p.Network, p.Address, "")
	require.NoError(t, err)
	p.On(faults.Command("SET"), 1, faults.DropAnswer)
	ctx, cancel := context.WithCancel(t.Context())
	result := testkit.Async(t, func() error { return relock.NewRedisLock("abandoned", c).TryLock(ctx) })
	held := func() bool { return s.Do(t, "EXISTS", "relock:{abandoned}") == int64(1) }
	testkit.Eventually(t, testkit.Patience, held, "it is executed")
	cancel()
	require.ErrorIs(t, testkit.ResultWithin(t, result, testkit.Patience), context.Canceled)
	require.NoError(t, c.Close())
	require.False(t, held())
}

package relock

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// closeLimit is how long Close, and every call that it ends, may take.
const closeLimit = 300 * time.Millisecond

// closing is what a client has when it is closed.
type closing struct {
	s      *redistest.Server
	c      *Client
	pool   *redis.Pool   // the user's, else nil
	block  chan struct{} // closed to let the user's dials go on
	once   sync.Once     // of that
	blocks atomic.Bool   // whether the user's dials block
	stuck  atomic.Int32  // the user's dials that do
	taken  []redis.Conn  // out of the pool, by the test
}

func (b *closing) ownClient(opts ...ClientOption) func(*testing.T) {
	return func(t *testing.T) {
		c, err := NewClient(b.s.Network, b.s.Address, "", append(opts, WithKeyPrefix("test:"))...)
		require.NoError(t, err)
		b.c = c
	}
}

func (b *closing) unblock() { b.once.Do(func() { close(b.block) }) }

// endAtCleanup ends all calls that async has started before, also when the test fails.
func (b *closing) endAtCleanup(t *testing.T) {
	t.Cleanup(func() {
		b.unblock()
		_ = b.c.Close() // what it says is checked elsewhere
	})
}

func (b *closing) dial() (redis.Conn, error) {
	if b.blocks.Load() {
		b.stuck.Add(1)
		<-b.block
	}
	return redis.Dial(b.s.Network, b.s.Address)
}

func (b *closing) userClient(knowsContext bool) func(*testing.T) {
	return func(t *testing.T) {
		b.pool = &redis.Pool{MaxIdle: 10}
		if knowsContext { // by its type only
			b.pool.DialContext = func(context.Context) (redis.Conn, error) { return b.dial() }
		} else {
			b.pool.Dial = b.dial
		}
		c, err := NewClientPool(b.pool, WithKeyPrefix("test:"))
		require.NoError(t, err)
		b.c = c
	}
}

// TestClose is not parallel: it counts milliseconds and goroutines.
func TestClose(t *testing.T) {
	for _, tt := range []struct {
		name  string
		setup func(*closing) func(*testing.T)
		spoil func(*testing.T, *closing)
		alive bool // calls in flight may succeed before Close
	}{
		{
			name: "idle server", alive: true,
			setup: func(b *closing) func(*testing.T) { return b.ownClient() },
			spoil: func(*testing.T, *closing) {},
		},
		{
			name:  "paused server",
			setup: func(b *closing) func(*testing.T) { return b.ownClient() },
			spoil: func(t *testing.T, b *closing) { b.s.Pause(t) },
		},
		{
			name:  "full pool in wait mode",
			setup: func(b *closing) func(*testing.T) { return b.ownClient(WithMaxActive(3), WithWaitMode()) },
			spoil: func(t *testing.T, b *closing) {
				b.taken = borrow(t, b.c, 3)
			},
		},
		{
			name:  "server gone",
			setup: func(b *closing) func(*testing.T) { return b.ownClient() },
			spoil: func(t *testing.T, b *closing) { b.s.Kill(t) }, alive: true,
		},
		{
			name: "user's pool", alive: true,
			setup: func(b *closing) func(*testing.T) { return b.userClient(false) },
			spoil: func(*testing.T, *closing) {},
		},
		{
			name:  "user's pool, paused server",
			setup: func(b *closing) func(*testing.T) { return b.userClient(false) },
			spoil: func(t *testing.T, b *closing) { b.s.Pause(t) },
		},
		{
			name:  "user's pool, Dial blocks",
			setup: func(b *closing) func(*testing.T) { return b.userClient(false) },
			spoil: blockDials,
		},
		{
			name:  "user's pool, Dial and engine's Dial block",
			setup: func(b *closing) func(*testing.T) { return b.userClient(false) },
			spoil: blockEngine,
		},
		{
			name:  "user's pool, DialContext and engine's DialContext block",
			setup: func(b *closing) func(*testing.T) { return b.userClient(true) },
			spoil: blockEngine,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &closing{s: redistest.Start(t), block: make(chan struct{})}
			leaks := goleak.IgnoreCurrent()
			tt.setup(b)(t)
			closeEndsAll(t, b, tt.spoil, tt.alive)

			b.unblock()
			putBack(b.c, b.taken)
			switch tt.name {
			case "server gone":
			case "paused server", "user's pool, paused server":
				b.s.Resume(t)
				fallthrough
			default:
				inspector := b.s.Dial(t)
				defer inspector.Close() //nolint:errcheck // nothing is pending
				if b.pool != nil {
					conn := b.pool.Get()
					_, err := conn.Do("PING")
					require.NoError(t, err, "the user's pool stays open")
					require.NoError(t, conn.Close())
					require.NoError(t, b.pool.Close())
				}
				testkit.Eventually(t, time.Second, func() bool { return len(testkit.Connections(t, inspector)) == 0 }, "connections stay")
			}
			goleak.VerifyNone(t, leaks)
		})
	}
}

// blockDials makes the user's dials block, and takes the idle connections away until all who want one dial.
func blockDials(t *testing.T, b *closing) {
	b.blocks.Store(true)
	for b.pool.IdleCount() > 0 { // while nobody else wants one: a Get that came too late would dial, and never return
		b.taken = append(b.taken, b.pool.Get())
	}
	for range 4 {
		testkit.Async(t, func() error {
			for b.c.Ping(t.Context()) == nil { // until it finds no connection that is idle
			}
			return nil
		})
	}
	b.endAtCleanup(t)
	testkit.Eventually(t, 2*time.Second, func() bool {
		dialling := b.pool.ActiveCount() - len(b.taken)
		return dialling >= 4 && int(b.stuck.Load()) >= dialling
	}, "dials do not block")
}

// blockEngine makes the watchdog dial too.
func blockEngine(t *testing.T, b *closing) {
	h, err := NewRedisLock("renewed", b.c).Acquire(t.Context())
	require.NoError(t, err)
	blockDials(t, b)
	stuck := b.stuck.Load()
	b.c.engine.Watchdog().Link.Cut() // it may have dialled before
	leaseOf(h).RenewNow()
	testkit.Eventually(t, 2*time.Second, func() bool { return b.stuck.Load() > stuck }, "the watchdog does not dial")
}

func closeEndsAll(t *testing.T, b *closing, spoil func(*testing.T, *closing), alive bool) {
	c := b.c
	h, err := NewRedisLock("held", c, WithWatchdog(2*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	nested, err := owned("me", NewReentrantLock("nested", c)).Acquire(t.Context())
	require.NoError(t, err)
	shared := NewRedisLock("shared", c, WithBlock())
	require.NoError(t, shared.Lock(t.Context()))
	ctx, forever := t.Context(), unbounded(t)
	waits := []*timed{
		begin(t, func() error { return NewRedisLock("held", c, WithBlock()).Lock(ctx) }),
		begin(t, func() error { return NewRedisLock("held", c, WithBlock()).Lock(forever) }),
		begin(t, func() error { return shared.Lock(ctx) }),
		begin(t, func() error { return shared.Lock(forever) }),
		begin(t, func() error { return NewReentrantLock("nested", c, WithBlock()).Lock(ctx) }),
		begin(t, func() error { _, err := NewReentrantLock("nested", c, WithBlock()).Acquire(forever); return err }),
	}
	over := []*timed{
		begin(t, func() error { return whyOver(ctx, h) }),
		begin(t, func() error { return whyOver(ctx, nested) }),
	}
	b.endAtCleanup(t)
	testkit.Eventually(t, 5*time.Second, func() bool {
		sat := c.waiting(keyOf(c, "held")) + c.waiting(keyOf(c, "shared")) + c.waiting(keyOf(c, "nested"))
		quiet := c.engine.Driver.(*driver.Pool).Sending() == 0 // no connection is about to be put back
		return sat == len(waits) && calls(t, b.s, "zadd") >= 3 && calls(t, b.s, "subscribe") == 1 && quiet
	}, "nobody waits")
	spoil(t, b)
	var inFlight []*timed
	for _, ctx := range []context.Context{ctx, forever} {
		inFlight = append(inFlight,
			begin(t, func() error { return c.Ping(ctx) }),
			begin(t, func() error { _, err := c.SetNEX(ctx, uuid.NewString(), "v", time.Second); return err }),
			begin(t, func() error { return NewRedisLock(uuid.NewString(), c).Lock(ctx) }),
			begin(t, func() error { return nested.Extend(ctx, 30*time.Second) }))
	}
	b.endAtCleanup(t)
	time.Sleep(20 * time.Millisecond) // so that the calls are under way: nothing tells

	half := setAlarm(t, time.Now().Add(closeLimit/2)) // as late as whatever is to end by then
	closed := []*timed{begin(t, c.Close), begin(t, c.Close), begin(t, c.Close)}
	for i, one := range closed {
		require.NoError(t, one.end(half), "Close %d", i)
	}
	for i, one := range waits {
		require.ErrorIs(t, one.end(half), ErrClosed, "wait %d", i)
	}
	for i, one := range inFlight {
		if err := one.end(half); !alive {
			require.ErrorIs(t, err, ErrClosed, "call %d", i)
		}
	}
	for _, one := range over {
		require.ErrorIs(t, one.end(half), ErrClosed)
	}
	start := time.Now()
	for _, h := range []Hold{h, nested} {
		require.ErrorIs(t, h.Err(), ErrClosed)
		require.Zero(t, h.ValidUntil())
		require.ErrorIs(t, h.Extend(t.Context(), time.Minute), ErrClosed)
		require.ErrorIs(t, h.Unlock(t.Context()), ErrClosed)
	}
	require.ErrorIs(t, shared.Unlock(t.Context()), ErrClosed)
	require.Less(t, time.Since(start), closeLimit/2)
	requireClosed(t, c)
}

// timed is a call, and when it has ended.
type timed struct {
	testing.TB
	result <-chan error
	at     time.Time
}

func begin(t testing.TB, f func() error) *timed {
	c := &timed{TB: t}
	c.result = testkit.Async(t, func() error {
		defer func() { c.at = time.Now() }()
		return f()
	})
	return c
}

// whyOver waits for the end of a hold, for as long as the test runs, and returns the cause.
func whyOver(ctx context.Context, h Hold) error {
	select {
	case <-h.Context().Done():
		return context.Cause(h.Context())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end returns what came of it, and sees that it ended as long after an alarm as that was set to at most.
func (c *timed) end(half *alarm) error {
	c.Helper()
	err := testkit.ResultWithin(c, c.result, 5*time.Second)
	require.Less(c, c.at.Sub(half.ring()), closeLimit/2)
	return err
}

// requireClosed checks that every call of a closed client fails.
func requireClosed(t testing.TB, c *Client) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, c.Close(), "closing again")
	require.ErrorIs(t, c.Ping(ctx), ErrClosed)
	_, err := c.SetNEX(ctx, "raw", "v", time.Second)
	require.ErrorIs(t, err, ErrClosed)
	_, err = c.Eval(ctx, NewScript("return 1"), nil)
	require.ErrorIs(t, err, ErrClosed)
	plain, reentrant := NewRedisLock("k", c, WithBlock()), NewReentrantLock("k", c, WithBlock())
	_, plainErr := plain.Acquire(ctx)
	_, reentrantErr := reentrant.TryAcquire(ctx)
	for _, err := range []error{
		plain.Lock(ctx), plain.TryLock(ctx), plain.Do(ctx, noWork), plainErr,
		reentrant.Lock(ctx), reentrant.TryLock(ctx), reentrant.TryDo(ctx, noWork), reentrantErr,
	} {
		require.ErrorIs(t, err, ErrClosed)
		require.False(t, IsRetryableErr(err))
	}
	require.NoError(t, plain.Validate(), "a handle stays valid")
}

func TestCloseOfAnUnusedClient(t *testing.T) {
	t.Parallel()
	c, err := NewClient("tcp", closedPort(t), "")
	require.NoError(t, err)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() { require.NoError(t, c.Close()) })
	}
	group.Wait()
	requireClosed(t, c)
	var none *Client
	require.ErrorIs(t, none.Close(), ErrInvalid)
	require.ErrorIs(t, none.Ping(t.Context()), ErrInvalid)
	require.ErrorIs(t, (&Client{}).Close(), ErrInvalid)
	require.ErrorIs(t, (&Client{}).Ping(t.Context()), ErrInvalid)
}

// A release that Close gives up is logged with its key, and with nothing else.
func TestCloseLogsWhatIsPending(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var log logBuffer
	c := newTestClient(t, s, log.option(), WithCommandTimeout(time.Second))
	l := NewRedisLock("my key", c)
	require.NoError(t, l.Lock(t.Context()))
	s.Pause(t)
	require.ErrorIs(t, l.Unlock(t.Context()), ErrUnconfirmed)
	require.NoError(t, c.Close())
	s.Resume(t)
	require.Contains(t, log.String(), `key="my key"`)
}

// stubborn is a connection of the user's that sends when it is unblocked, also when it was closed before.
type stubborn struct {
	redis.ConnWithTimeout
	*closing
}

func (c stubborn) Flush() error {
	if c.blocks.Load() {
		c.stuck.Add(1)
		<-c.block
	}
	return c.ConnWithTimeout.Flush()
}

// So is one that is under way where nobody can cut it.
func TestCloseLogsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var log logBuffer
	b := &closing{s: s, block: make(chan struct{})}
	b.pool = &redis.Pool{Dial: func() (redis.Conn, error) {
		conn, err := b.dial()
		if err != nil {
			return nil, err
		}
		return stubborn{conn.(redis.ConnWithTimeout), b}, nil
	}}
	c, err := NewClientPool(b.pool, log.option())
	require.NoError(t, err)
	b.c = c
	b.endAtCleanup(t)
	h, err := NewRedisLock("my key", c).Acquire(t.Context())
	require.NoError(t, err)
	ping := c.engine.Retrier.Link.Pipeline(driver.BatchLimit{Own: time.Minute, Borrowed: time.Minute}, []driver.Request{{Cmd: "PING"}})
	require.NoError(t, ping[0].Err)
	b.blocks.Store(true)
	leaseOf(h).Release(time.Now())
	testkit.Eventually(t, testkit.Patience, func() bool { return b.stuck.Load() == 1 }, "is being sent")
	require.NoError(t, c.Close())
	require.Contains(t, log.String(), `key="my key"`)
}

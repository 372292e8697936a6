package conns

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// hangingDials counts the dials of a client, each of which hangs, but for the
// first n, and those after the last.
type hangingDials struct {
	n     int64
	last  int64 // 0 is none
	deaf  bool  // they ignore the end of their contexts
	dials atomic.Int64
	freed chan struct{} // what hangs goes on when it is closed
}

func (h *hangingDials) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if d := h.dials.Add(1); d > h.n && (h.last == 0 || d <= h.last) {
		over := ctx.Done()
		if h.deaf {
			over = nil
		}
		select {
		case <-h.freed:
		case <-over:
			return nil, ctx.Err()
		}
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (h *hangingDials) set(c *driver.Config) { c.Dial, c.DialTimeout = h.dial, testkit.Patience }

// usersPool returns a driver on a pool of the user's that dials so.
func (h *hangingDials) usersPool(t testing.TB, s *redistest.Server, change func(*redis.Pool)) *Pool {
	pool := &redis.Pool{MaxIdle: 4, DialContext: func(ctx context.Context) (redis.Conn, error) {
		conn, err := h.dial(ctx, s.Network, s.Address)
		if err != nil {
			return nil, err
		}
		return redis.NewConn(conn, 0, 0), nil
	}}
	change(pool)
	c := &driver.Config{DialTimeout: testkit.Patience, CommandTimeout: testkit.Patience}
	d := FromPool(c, pool)
	t.Cleanup(func() { assert.NoError(t, pool.Close()) })
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	return d
}

func atMost(n int, wait bool) func(*redis.Pool) {
	return func(p *redis.Pool) { p.MaxActive, p.Wait = n, wait }
}

func eachPoolThatHangs(t *testing.T, f func(*testing.T, *hangingDials, *Pool)) {
	t.Helper()
	testkit.Each(t, map[string]func(testing.TB, *hangingDials, *redistest.Server) *Pool{
		"ours": func(t testing.TB, h *hangingDials, s *redistest.Server) *Pool { return newTestPool(t, s, h.set) },
		"ours, callers wait": func(t testing.TB, h *hangingDials, s *redistest.Server) *Pool {
			return newTestPool(t, s, h.set, func(c *driver.Config) { c.MaxActive, c.Wait = 2, true })
		},
		"the user's": func(t testing.TB, h *hangingDials, s *redistest.Server) *Pool {
			return h.usersPool(t, s, atMost(0, false))
		},
		"the user's, callers wait": func(t testing.TB, h *hangingDials, s *redistest.Server) *Pool {
			return h.usersPool(t, s, atMost(2, true))
		},
	}, func(t *testing.T, _ string, open func(testing.TB, *hangingDials, *redistest.Server) *Pool) {
		h := &hangingDials{n: 1, freed: make(chan struct{})}
		f(t, h, open(t, h, redistest.Start(t)))
	})
}

// A call whose dial hangs uses the connection that another call returns
// meanwhile. Calls that take turns over that one leave one dial under way. What
// it opens is the pool's.
func TestCallsTakeTurnsWhileADialHangs(t *testing.T) {
	t.Parallel()
	eachPoolThatHangs(t, func(t *testing.T, h *hangingDials, d *Pool) {
		warmPool(t, d, 1)
		busy := takeConns(t, d, 1)
		waits := testkit.Async(t, func() error { return d.Call(t.Context(), driver.Limits{}, echo("x")).Err })
		testkit.Eventually(t, testkit.Patience, func() bool { return h.dials.Load() == 2 }, "it dials")
		putConns(d, busy)
		require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience/2))
		Together(2, func(int) {
			for n := 0; n < 20 && assert.NoError(t, d.Call(t.Context(), driver.Limits{}, echo("x")).Err); n++ {
			}
		})
		if d.own { // a user's pool may dial when an idle connection is asked for
			require.LessOrEqual(t, h.dials.Load(), int64(3), "each call dials")
		}
		close(h.freed)
		testkit.Eventually(t, testkit.Patience, func() bool { return d.Idle() >= 2 }, "the pool's")
		Together(2, func(int) { assert.NoError(t, d.Call(t.Context(), driver.Limits{}, echo("x")).Err) })
		require.Zero(t, d.InUse())
	})
}

// leaveADial has a call leave a dial that hangs. The pool's only connection is
// in use again when it returns. It returns what gives that back.
func leaveADial(t *testing.T, h *hangingDials, d *Pool, limit driver.Limits) (free func()) {
	t.Helper()
	warmPool(t, d, 1)
	busy := takeConns(t, d, 1)
	leaves := testkit.Async(t, func() error { return d.Call(t.Context(), limit, echo("x")).Err })
	testkit.Eventually(t, testkit.Patience, func() bool { return h.dials.Load() == 2 }, "it dials")
	putConns(d, busy)
	require.NoError(t, testkit.ResultWithin(t, leaves, testkit.Patience))
	busy = takeConns(t, d, 1)
	return func() { putConns(d, busy) }
}

// A call goes on with a dial that another one has left. When that fails, the
// call still ends at its own limit.
func TestClaimedDialCostsNoSecondLimit(t *testing.T) {
	t.Parallel()
	limit := driver.Limits{Connect: time.Second}
	eachPoolThatHangs(t, func(t *testing.T, h *hangingDials, d *Pool) {
		free := leaveADial(t, h, d, limit)
		watch := testkit.NewStopwatch(t)
		require.True(t, driver.IsTimeout(d.Call(t.Context(), limit, echo("x")).Err))
		watch.Within(limit.Connect * 5 / 4)
		free()
	})
}

// A call that goes on with the dial of another one soon dials itself, too. If
// the pool has no room for that, it waits on.
func TestClaimedDialThatHangsIsNotAlone(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(*driver.Config){
		"room": func(*driver.Config) {}, "room, callers wait": func(c *driver.Config) { c.MaxActive, c.Wait = 3, true },
		"no room": func(c *driver.Config) { c.MaxActive = 2 },
	}, func(t *testing.T, name string, change func(*driver.Config)) {
		h := &hangingDials{n: 1, last: 2, freed: make(chan struct{})}
		d := newTestPool(t, redistest.Start(t), h.set, change)
		free := leaveADial(t, h, d, driver.Limits{})
		waits := testkit.Async(t, func() error { return d.Call(t.Context(), driver.Limits{}, echo("x")).Err })
		if name == "no room" {
			require.Never(t, func() bool { return len(waits) > 0 }, 3*aside, aside/10)
			close(h.freed)
		}
		require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience/2))
		free()
	})
}

// Calls that wait for long, while all dials hang, have one more of them under
// way than there are calls.
func TestFewDialsHang(t *testing.T) {
	t.Parallel()
	const callers = 4
	h := &hangingDials{n: 1, freed: make(chan struct{})}
	d := newTestPool(t, redistest.Start(t), h.set)
	warmPool(t, d, 1)
	for range 3 {
		Together(callers, func(int) {
			conn, err := d.connect(t.Context(), 0)
			if assert.NoError(t, err) {
				time.Sleep(2 * aside) // a command that takes long
				d.putBack(conn)
			}
		})
	}
	require.LessOrEqual(t, h.dials.Load(), int64(1+callers+1))
}

// A dial may end a moment after its context, while a call waits for it. It
// frees one slot, and the call's own dial another one.
func TestClaimedDialThatEndsFreesOneSlot(t *testing.T) {
	t.Parallel()
	h := &hangingDials{n: 1, freed: make(chan struct{})}
	d := newTestPool(t, redistest.Start(t), h.set, func(c *driver.Config) { c.MaxActive, c.Wait = 3, true })
	dial := d.Redis.DialContext
	d.Redis.DialContext = func(ctx context.Context) (redis.Conn, error) {
		conn, err := dial(ctx)
		if err != nil {
			time.Sleep(aside)
		}
		return conn, err
	}
	free := leaveADial(t, h, d, driver.Limits{Connect: time.Second})
	require.True(t, driver.IsTimeout(d.Call(t.Context(), driver.Limits{Connect: 2 * time.Second}, echo("x")).Err))
	require.Equal(t, int64(3), h.dials.Load(), "it dials itself")
	require.Equal(t, 1, d.InUse())
	free()
	require.Zero(t, d.InUse())
}

// A pool that may open as many connections as there are callers is never full,
// also while most of its dials hang, and a look at an idle one takes a moment.
func TestCallsTakeTurnsOverAFullPool(t *testing.T) {
	t.Parallel()
	for _, callers := range []int{2, 8} {
		h := &hangingDials{n: 1, freed: make(chan struct{})}
		d := newTestPool(t, redistest.Start(t), h.set, func(c *driver.Config) { c.MaxActive = callers })
		check := d.Redis.TestOnBorrowContext
		d.Redis.TestOnBorrowContext = func(ctx context.Context, idle redis.Conn, lastUsed time.Time) error {
			time.Sleep(time.Millisecond)
			return check(ctx, idle, lastUsed)
		}
		warmPool(t, d, 1)
		Together(callers, func(int) {
			for n := 0; n < 1000/callers && assert.NoError(t, d.Call(t.Context(), driver.Limits{}, echo("x")).Err); n++ {
			}
		})
	}
}

// A call that is notified of an idle connection, and does not take it because
// its own dial has just ended, notifies another call.
func TestNoticeOfAnIdleConnectionIsPassedOn(t *testing.T) {
	d := newTestPool(t, redistest.Start(t), func(*driver.Config) {})
	f := &fetch{done: make(chan struct{})}
	close(f.done)
	_, kept := d.swap(t.Context(), f)
	require.True(t, kept)
	require.Empty(t, d.freed, "nothing is idle")
	warmPool(t, d, 1)
	for len(d.freed) > 0 {
		<-d.freed
	}
	idle, kept := d.swap(t.Context(), f)
	require.Nil(t, idle)
	require.True(t, kept)
	require.Len(t, d.freed, 1)
}

// A user's Dial may ignore its context. A call does not wait for one that has
// had its time: it dials itself.
func TestDeafDialIsLeft(t *testing.T) {
	t.Parallel()
	h := &hangingDials{n: 1, deaf: true, freed: make(chan struct{})}
	d := h.usersPool(t, redistest.Start(t), atMost(0, false))
	free := leaveADial(t, h, d, driver.Limits{Connect: time.Second})
	waits := testkit.Async(t, func() error { return d.Call(t.Context(), driver.Limits{}, echo("x")).Err })
	testkit.Eventually(t, testkit.Patience/2, func() bool { return h.dials.Load() == 3 }, "it dials itself")
	close(h.freed)
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
	free()
}

// A call that leaves ends its dial, and its place is free.
func TestCallLeavesADialThatHangs(t *testing.T) {
	t.Parallel()
	eachPoolThatHangs(t, func(t *testing.T, h *hangingDials, d *Pool) {
		warmPool(t, d, 1)
		busy := takeConns(t, d, 1)
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			before := h.dials.Load()
			waits := testkit.Async(t, func() error { return d.Call(ctx, driver.Limits{}, echo("x")).Err })
			testkit.Eventually(t, testkit.Patience, func() bool { return h.dials.Load() > before }, "it dials")
			cancel()
			require.ErrorIs(t, testkit.ResultWithin(t, waits, testkit.Patience), driver.ErrAbandoned)
			limit := driver.Limits{Connect: 10 * time.Millisecond}
			require.True(t, driver.IsTimeout(d.Call(t.Context(), limit, echo("x")).Err))
		}
		putConns(d, busy)
		testkit.Eventually(t, testkit.Patience, func() bool { return d.Open() == 1 }, "dials go on")
		require.NoError(t, d.Call(t.Context(), driver.Limits{}, echo("x")).Err)
	})
}

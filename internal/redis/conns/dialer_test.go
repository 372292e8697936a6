package conns_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// buffered reads ahead, so its socket says nothing about answers.
type buffered struct {
	*net.TCPConn

	ahead net.Conn // what was read
}

func (c *buffered) Read(p []byte) (int, error) { return c.ahead.Read(p) }

func (c *buffered) SetDeadline(at time.Time) error {
	return errors.Join(c.SetWriteDeadline(at), c.ahead.SetDeadline(at))
}

func (c *buffered) SetReadDeadline(at time.Time) error { return c.ahead.SetReadDeadline(at) }

func (c *buffered) Close() error { return errors.Join(c.TCPConn.Close(), c.ahead.Close()) }

var system = (&net.Dialer{}).DialContext

func buffering(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := system(ctx, network, address)
	if err != nil {
		return nil, err
	}
	out, in := net.Pipe()
	go func() {
		_, _ = io.Copy(in, c)
		_ = in.Close()
	}()
	return &buffered{c.(*net.TCPConn), out}, nil
}

// inTurn dials plain and buffered connections in turn.
func inTurn() dialFunc {
	var n atomic.Int64
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if n.Add(1)%2 == 0 {
			return buffering(ctx, network, address)
		}
		return system(ctx, network, address)
	}
}

var dialers = map[string]dialFunc{"plain": system, "buffered": buffering, "in turn": inTurn()}

// Locks work over any connection of a user, with goroutines, waiters and
// renewals.
func TestDialerOfAUser(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	testkit.Each(t, dialers, func(t *testing.T, _ string, dial dialFunc) {
		c := locktest.NewTestClient(t, s, relock.WithDialer(dial))
		h := locktest.Acquire(t, c, "k")
		locktest.RequireRenewed(t, h)
		next := testkit.Async(t, func() error {
			return relock.NewRedisLock("k", c, relock.WithBlock()).Do(t.Context(), locktest.Nothing)
		})
		testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Inspect(t, c, "k").Waiting == 1 }, "waits")
		require.NoError(t, h.Unlock(t.Context()))
		require.NoError(t, testkit.ResultWithin(t, next, testkit.Patience))
	})
}

// A call ends with its context while an answer is missing, over any connection.
func TestDialerOfAUserAndALateAnswer(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	testkit.Each(t, dialers, func(t *testing.T, _ string, dial dialFunc) {
		c, p := locktest.Behind(t, s, relock.WithDialer(dial))
		for range 2 { // one connection of each kind
			require.NoError(t, c.Ping(t.Context()))
			p.Stall()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			watch := testkit.NewStopwatch(t)
			require.ErrorIs(t, c.Ping(ctx), context.DeadlineExceeded)
			watch.Within(time.Second / 2)
			cancel()
			p.Resume()
		}
		require.NoError(t, c.Ping(t.Context()))
	})
}

// A dialer that hangs costs its calls an error in time, also if calls need no
// goroutine.
func TestDialerThatHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	var hangs atomic.Bool
	dial := relock.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if hangs.Load() {
			<-release
		}
		return system(ctx, network, address)
	})
	c := locktest.NewTestClient(t, redistest.StartTCP(t), dial, relock.WithMaxIdle(0), relock.WithDialTimeout(time.Second))
	require.NoError(t, c.Ping(t.Context()))
	hangs.Store(true)
	got := make(chan error, 1)
	watch := testkit.NewStopwatch(t)
	go func() { got <- c.Ping(t.Context()) }()
	err, ok := testkit.Await(got, testkit.Patience)
	watch.Within(1500 * time.Millisecond)
	require.True(t, ok, "the call waits for the dialer")
	require.ErrorContains(t, err, "no answer from the server")
}

// blocking is a connection whose Close blocks until the test allows it.
type blocking struct {
	net.Conn

	closes  *atomic.Int64
	release chan struct{}
}

func (c blocking) Close() error {
	c.closes.Add(1)
	<-c.release
	return c.Conn.Close()
}

// A connection whose Close blocks delays neither the call that gives it up, nor
// the next ones, nor the Close of the client. It is closed once.
func TestDialerWhoseConnectionsBlockInClose(t *testing.T) {
	t.Parallel()
	var closes, dials atomic.Int64
	release := make(chan struct{})
	s := redistest.StartTCP(t)
	c, err := relock.NewClient(s.Network, s.Address, "", relock.WithCommandTimeout(testkit.Patience), relock.WithDialer(
		func(ctx context.Context, network, address string) (net.Conn, error) {
			plain, err := system(ctx, network, address)
			dials.Add(1)
			return blocking{plain, &closes, release}, err
		}))
	require.NoError(t, err)
	ping := func() error { return c.Ping(t.Context()) }
	require.NoError(t, ping())
	s.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	_ = testkit.ResultWithin(t, testkit.Async(t, ping), testkit.Patience) // it may find the break
	require.NoError(t, testkit.ResultWithin(t, testkit.Async(t, ping), testkit.Patience))
	testkit.Eventually(t, testkit.Patience, func() bool { return closes.Load() == 1 }, "the broken one is closed")
	h := locktest.Acquire(t, c, "k")
	watch := testkit.NewStopwatch(t)
	require.NoError(t, testkit.ResultWithin(t, testkit.Async(t, c.Close), testkit.Patience))
	watch.Within(100*time.Millisecond, "Close")
	require.ErrorIs(t, h.Err(), relock.ErrClosed)
	testkit.Eventually(t, testkit.Patience, func() bool { return closes.Load() == dials.Load() }, "all are closed")
	close(release)
}

// A dialer that fails or panics costs its calls an error.
func TestDialerThatFails(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	testkit.Each(t, map[string]dialFunc{
		"dialer panicked: no tunnel": func(context.Context, string, string) (net.Conn, error) { panic("no tunnel") },
		"neither a connection":       func(context.Context, string, string) (net.Conn, error) { return nil, nil },
	}, func(t *testing.T, want string, dial dialFunc) {
		require.ErrorContains(t, locktest.NewTestClient(t, s, relock.WithDialer(dial)).Ping(t.Context()), want)
	})
	_, err := relock.NewClient("tcp", "localhost:6379", "", relock.WithDialer(nil))
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorContains(t, err, "WithDialer: is nil")
}

// TLS comes after the dialer, and checks the name of the server's address.
func TestDialerBelowTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	_, address := a.startTLS(t, "no")
	var dialled atomic.Int64
	c, err := relock.NewClient("tcp", address, "", relock.WithTLS(&tls.Config{RootCAs: a.pool()}), relock.WithDialer(
		func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled.Add(1)
			return system(ctx, network, address)
		}))
	c = newClient(t, c, err)
	require.NoError(t, locktest.Acquire(t, c, "k").Unlock(t.Context()))
	require.Positive(t, dialled.Load())
}

// argument is an argument with a method that the user has written.
type argument func() any

func (a argument) RedisArg() any { return a() }

// An argument of Eval that panics does so at its caller and costs no
// connection, whatever the connections are.
func TestArgumentThatPanics(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	script := relock.NewScript("return ARGV[1]")
	testkit.Each(t, dialers, func(t *testing.T, _ string, dial dialFunc) {
		c := locktest.NewTestClient(t, s, relock.WithDialer(dial), relock.WithMaxActive(1), relock.WithWaitMode())
		for range 2 {
			require.PanicsWithValue(t, "mine", func() {
				_, _ = c.Eval(t.Context(), script, nil, argument(func() any { panic("mine") }))
			})
		}
		got, err := c.Eval(t.Context(), script, nil, argument(func() any { return time.Second }))
		require.NoError(t, err)
		require.Equal(t, "1s", got)
	})
}

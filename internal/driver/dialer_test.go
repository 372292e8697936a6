package driver_test

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
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func dialled(t testing.TB, s *redistest.Server, dial dialFunc, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return locktest.NewTestClient(t, s, append(opts, relock.WithDialer(dial))...)
}

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

func system(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

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
	for name, dial := range dialers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dialled(t, s, dial)
			h := acquire(t, c, "k")
			requireRenewed(t, h)
			next := make(chan error, 1)
			go func() {
				w, err := relock.NewRedisLock("k", c, relock.WithBlock()).Acquire(t.Context())
				if err == nil {
					err = w.Unlock(t.Context())
				}
				next <- err
			}()
			testkit.Eventually(t, testkit.Patience, func() bool { return locktest.WaitingIn(c, locktest.KeyOf(c, "k")) == 1 }, "waits")
			require.NoError(t, h.Unlock(t.Context()))
			require.NoError(t, <-next)
		})
	}
}

// A call ends with its context while an answer is missing, over any connection.
func TestDialerOfAUserAndALateAnswer(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	for name, dial := range dialers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := faults.Start(t, s.Network, s.Address)
			c := dialled(t, &redistest.Server{Network: p.Network, Address: p.Address}, dial)
			for range 2 { // one connection of each kind
				require.NoError(t, c.Ping(t.Context()))
				p.Stall()
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				start := time.Now()
				require.ErrorIs(t, c.Ping(ctx), context.DeadlineExceeded)
				require.Less(t, time.Since(start), time.Second)
				cancel()
				p.Resume()
			}
			require.NoError(t, c.Ping(t.Context()))
		})
	}
}

// A dialer that hangs costs its calls an error in time, also if calls need no
// goroutine.
func TestDialerThatHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	var hangs atomic.Bool
	c := dialled(t, redistest.StartTCP(t), func(ctx context.Context, network, address string) (net.Conn, error) {
		if hangs.Load() {
			<-release
		}
		return system(ctx, network, address)
	}, relock.WithMaxIdle(0), relock.WithDialTimeout(100*time.Millisecond))
	require.NoError(t, c.Ping(t.Context()))
	hangs.Store(true)
	got := make(chan error, 1)
	go func() { got <- c.Ping(t.Context()) }()
	select {
	case err := <-got:
		require.ErrorContains(t, err, "no answer from the server")
	case <-time.After(5 * time.Second):
		t.Error("the call waits for the dialer")
	}
}

// A dialer that fails or panics costs its calls an error.
func TestDialerThatFails(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	for want, dial := range map[string]dialFunc{
		"dialer panicked: no tunnel": func(context.Context, string, string) (net.Conn, error) { panic("no tunnel") },
		"neither a connection":       func(context.Context, string, string) (net.Conn, error) { return nil, nil },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, dialled(t, s, dial).Ping(t.Context()), want)
		})
	}
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
	require.NoError(t, acquire(t, c, "k").Unlock(t.Context()))
	require.Positive(t, dialled.Load())
}

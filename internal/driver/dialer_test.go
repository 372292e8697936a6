package driver_test

import (
	"context"
	"crypto/tls"
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

// buffered keeps what it has read, so its socket says nothing about answers.
type buffered struct {
	*net.TCPConn

	rest []byte
}

func (c *buffered) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		c.rest = make([]byte, 4096)
		n, err := c.TCPConn.Read(c.rest)
		if c.rest = c.rest[:n]; err != nil {
			return 0, err
		}
	}
	n := copy(p, c.rest[:min(2, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}

func system(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

func buffering(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := system(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &buffered{TCPConn: c.(*net.TCPConn)}, nil
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

// A dialer that fails, panics or hangs costs its calls an error in time.
func TestDialerThatFails(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for want, dial := range map[string]dialFunc{
		"dialer panicked: no tunnel": func(context.Context, string, string) (net.Conn, error) { panic("no tunnel") },
		"neither a connection":       func(context.Context, string, string) (net.Conn, error) { return nil, nil },
		"no answer from the server":  func(context.Context, string, string) (net.Conn, error) { <-release; return nil, net.ErrClosed },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			c := dialled(t, s, dial, relock.WithDialTimeout(100*time.Millisecond))
			start := time.Now()
			require.ErrorContains(t, c.Ping(t.Context()), want)
			require.Less(t, time.Since(start), 2*time.Second)
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

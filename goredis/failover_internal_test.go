package goredis

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/testkit"
)

// network is where a dialer connects to.
type network struct {
	mu      sync.Mutex
	address string // of the master
	err     error
	dials   int
	open    int
	delay   time.Duration
}

func (n *network) set(address string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.address, n.err = address, err
}

func (n *network) counts() (dials, open int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials, n.open
}

func (n *network) dial(ctx context.Context) (net.Conn, error) {
	n.mu.Lock()
	n.dials++
	c, err, delay := &end{network: n, address: n.address}, n.err, n.delay
	n.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay) // ignores ctx, as TLS of go-redis does
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.open++
	n.mu.Unlock()
	return c, nil
}

// end is a connection that only has an address.
type end struct {
	net.Conn
	network *network
	address string
}

func (e *end) RemoteAddr() net.Addr { return &net.UnixAddr{Name: e.address} }

func (e *end) Close() error {
	e.network.mu.Lock()
	defer e.network.mu.Unlock()
	e.network.open--
	return nil
}

// start returns a failover that has found its master.
func start(t *testing.T, n *network) *failover {
	f := newFailover(n.dial)
	t.Cleanup(f.close)
	address, err := f.master(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, n.address, address)
	return f
}

func requireChange(t *testing.T, f *failover, want bool) {
	t.Helper()
	select {
	case <-f.changes:
		require.True(t, want, "a change")
	default:
		require.False(t, want, "no change")
	}
}

func TestQuietMasterIsCheckedEveryTenSeconds(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		n := &network{address: "one"}
		f := start(t, n)
		time.Sleep(time.Minute + time.Second)
		dials, open := n.counts()
		require.Equal(t, 7, dials)
		require.Zero(t, open)
		requireChange(t, f, false)
		n.set("two", nil)
		time.Sleep(restPause)
		requireChange(t, f, true)
		address, err := f.master(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, "two", address)
	})
}

// Checks are frequent, but not more so with more failures, until the new master
// is known. The failure of another server begins none.
func TestFailedMasterIsCheckedOften(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		n := &network{address: "one"}
		f := start(t, n)
		f.invalidate("zero")
		synctest.Wait()
		dials, _ := n.counts()
		require.Equal(t, 1, dials)
		for range 3000 {
			f.invalidate("one")
			time.Sleep(time.Millisecond)
		}
		dials, _ = n.counts()
		require.Greater(t, dials, 7)
		require.Less(t, dials, 26)
		n.set("two", nil)
		time.Sleep(2 * alarmPause)
		requireChange(t, f, true)
		before, _ := n.counts()
		time.Sleep(restPause - time.Second)
		after, _ := n.counts()
		require.LessOrEqual(t, after-before, 1)
	})
}

// A dialer that fails costs nobody the master that is known.
func TestMasterIsRememberedWhileSentinelsFail(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		n := &network{address: "one"}
		f := start(t, n)
		n.set("", errors.New("no Sentinel answers"))
		f.invalidate("one")
		time.Sleep(time.Second)
		address, err := f.master(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, "one", address)
		_, err = f.dial(t.Context(), "one")
		require.ErrorContains(t, err, "no Sentinel answers")
	})
}

func TestNoMasterIsKnown(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		n := &network{err: errors.New("no Sentinel answers")}
		f := newFailover(n.dial)
		_, err := f.masters(t.Context())
		require.ErrorContains(t, err, "no Sentinel answers")
		n.set("one", nil)
		masters, err := f.masters(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"one"}, masters)
		f.close()

		n.delay = time.Hour
		f = newFailover(n.dial)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = f.master(ctx, "")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		began := time.Now()
		f.close()
		require.LessOrEqual(t, time.Since(began), closeWait)
		time.Sleep(time.Hour)
	})
}

// A connection is used only if it leads to the server that was asked for, and
// that is the master. The first one that leads elsewhere shows the new master.
func TestDialToAnotherServer(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		n := &network{address: "one"}
		f := start(t, n)
		c, err := f.dial(t.Context(), "one")
		require.NoError(t, err)
		require.NoError(t, c.Close())
		n.set("two", nil)
		_, err = f.dial(t.Context(), "one")
		var failed net.Error
		require.ErrorAs(t, err, &failed)
		require.ErrorContains(t, err, "one is not the master any more")
		requireChange(t, f, true)
		masters, err := f.masters(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"two"}, masters)
		_, open := n.counts()
		require.Zero(t, open)
	})
}

// A dial that began before the change does not undo it.
func TestSlowDial(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		n := &network{address: "one"}
		f := start(t, n)
		n.delay = time.Second
		slow := make(chan error, 1)
		go func() {
			_, err := f.dial(t.Context(), "one")
			slow <- err
		}()
		synctest.Wait()
		n.mu.Lock()
		n.address, n.delay = "two", 0
		n.mu.Unlock()
		time.Sleep(time.Millisecond)
		_, err := f.dial(t.Context(), "two")
		require.NoError(t, err)
		requireChange(t, f, true)
		require.ErrorContains(t, <-slow, "not the master")
		requireChange(t, f, false)
		address, err := f.master(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, "two", address)
	})
}

// Mistakes of a user's dialer are errors: a panic, and no connection.
func TestDialerMistakes(t *testing.T) {
	for want, dial := range map[string]func(context.Context) (net.Conn, error){
		"dialer panicked: oops":       func(context.Context) (net.Conn, error) { panic("oops") },
		"neither a connection nor an": func(context.Context) (net.Conn, error) { return nil, nil },
	} {
		f := newFailover(dial)
		_, err := f.master(t.Context(), "")
		require.ErrorContains(t, err, want)
		f.close()
	}
}

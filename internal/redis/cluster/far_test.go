package cluster

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// far is a network whose round trip takes this time. It counts connections.
type far struct {
	distance time.Duration

	dials, open, most atomic.Int64
}

func (f *far) use(c *Config) {
	c.Servers.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		f.dials.Add(1)
		for open := f.open.Add(1); ; {
			most := f.most.Load()
			if most >= open || f.most.CompareAndSwap(most, open) {
				break
			}
		}
		timer := time.NewTimer(f.distance)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			f.open.Add(-1)
			return nil, ctx.Err()
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &farConn{Conn: conn, to: f}, err
	}
}

// farConn delays what is sent. Each answer is later by that.
type farConn struct {
	net.Conn

	to     *far
	closed atomic.Bool
}

func (c *farConn) Write(p []byte) (int, error) {
	time.Sleep(c.to.distance)
	return c.Conn.Write(p)
}

func (c *farConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.to.open.Add(-1)
	}
	return c.Conn.Close()
}

// After a cut, each of many clients asks a Cluster that is far away for its
// slots, and its master whether it answers. That is all, as soon as it does.
func TestFarMasterIsNotLookedFor(t *testing.T) {
	t.Parallel()
	const clients = 50
	s := redistest.StartCluster(t, 3, 0)
	network := &far{distance: 150 * time.Millisecond}
	all, found := make([]*Cluster, clients), make([]<-chan error, clients)
	for i := range all {
		all[i] = clusterOf(t, s.Addresses(), network.use)
		found[i] = testkit.Async(t, func() error { _, err := all[i].Master(t.Context(), "k"); return err })
	}
	testkit.AllWithin(t, found, testkit.Patience)
	before := network.dials.Load()
	for _, p := range all {
		p.Invalidate(s.Servers[0].Address)
	}
	for _, p := range all {
		testkit.Eventually(t, testkit.Patience, func() bool { return !p.doubts(s.Servers[0]) }, "it answers")
	}
	require.Never(t, func() bool { return network.dials.Load()-before > 4*clients }, time.Second, loadPause)
	t.Logf("%d connections of %d clients", network.dials.Load()-before, clients)
}

// A client whose server is farther away than the first limit finds it, within
// its own dial timeout.
func TestClusterIsFoundFromFarAway(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 1, 0)
	network := &far{distance: firstLimit + 100*time.Millisecond}
	p := clusterOf(t, s.Addresses(), network.use, func(c *Config) { c.Servers.DialTimeout = testkit.Patience })
	address, err := p.Master(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, s.Servers[0].Address, address)
}

// Servers that hang are asked together, three at most. The error of a call has
// each of them.
func TestErrorHasEachServerThatHangs(t *testing.T) {
	t.Parallel()
	var seeds []string
	for range 5 {
		listener := redistest.Listen(t)
		t.Cleanup(func() { require.NoError(t, listener.Close()) })
		seeds = append(seeds, listener.Addr().String())
	}
	network := &far{}
	p := clusterOf(t, seeds, network.use)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := p.Master(ctx, "k")
	require.True(t, driver.IsTimeout(err), err)
	for _, at := range seeds {
		require.ErrorContains(t, err, at)
	}
	require.Equal(t, int64(mostAsked), network.most.Load())
}

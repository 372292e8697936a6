package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// over has a topology connect over a network.
func over(network *faults.FarNetwork) func(*Config) {
	return func(c *Config) { c.Servers.Dial = network.Dial }
}

// After a cut, each of many clients asks a Cluster that is far away for its
// slots, and its master whether it answers. That is all, as soon as it does.
func TestFarMasterIsNotLookedFor(t *testing.T) {
	t.Parallel()
	const clients = 50
	s := redistest.StartCluster(t, 3, 0)
	network := &faults.FarNetwork{Distance: 150 * time.Millisecond}
	all, found := make([]*Cluster, clients), make([]<-chan error, clients)
	for i := range all {
		all[i] = clusterOf(t, s.Addresses(), over(network))
		found[i] = testkit.Async(t, func() error { _, err := all[i].Master(t.Context(), "k"); return err })
	}
	testkit.AllWithin(t, found, testkit.Patience)
	before := network.Dials()
	for _, p := range all {
		p.Invalidate(s.Servers[0].Address)
	}
	for _, p := range all {
		testkit.Eventually(t, testkit.Patience, func() bool { return !p.doubts(s.Servers[0]) }, "it answers")
	}
	most := int64(clients * (mostAsked + 1)) // one load each, and the question to the master
	require.Never(t, func() bool { return network.Dials()-before > most }, time.Second, loadPause)
	t.Logf("%d connections of %d clients", network.Dials()-before, clients)
}

// A master far away hangs for a second. Loads end soon after it answers again.
func TestLoadsEndAfterAHang(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0, "--cluster-node-timeout", "20000")
	network := &faults.FarNetwork{Distance: 120 * time.Millisecond}
	p := clusterOf(t, s.Addresses(), over(network))
	_, err := p.Master(t.Context(), "k")
	require.NoError(t, err)
	before := network.Dials()
	s.Servers[0].Pause(t)
	p.Invalidate(s.Servers[0].Address)
	time.Sleep(time.Second) // the hang
	s.Servers[0].Resume(t)
	testkit.Eventually(t, testkit.Patience, func() bool { return !p.doubts(s.Servers[0]) }, "it answers")
	during := network.Dials()
	require.Never(t, func() bool { return network.Dials()-during > mostAsked }, 3*time.Second, loadPause)
	t.Logf("%d connections during the hang, %d in 3 s after it", during-before, network.Dials()-during)
}

// A client whose server is farther away than the first limit finds it, within
// its own dial timeout.
func TestClusterIsFoundFromFarAway(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 1, 0)
	network := &faults.FarNetwork{Distance: firstLimit + 100*time.Millisecond}
	p := clusterOf(t, s.Addresses(), over(network), func(c *Config) { c.Servers.DialTimeout = testkit.Patience })
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
	network := &faults.FarNetwork{}
	p := clusterOf(t, seeds, over(network))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := p.Master(ctx, "k")
	require.True(t, driver.IsTimeout(err), err)
	for _, at := range seeds {
		require.ErrorContains(t, err, at)
	}
	require.Equal(t, int64(mostAsked), network.Most())
}

package topology

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

const (
	seedHost = "seed.test"
	seedName = seedHost + ":1"
)

// namedServer is where the name of a seed leads. At the addresses in moved is
// nothing.
type namedServer struct {
	to    atomic.Pointer[redistest.Server]
	moved []string
}

// dial connects as the system does, if it resolved the name.
func (n *namedServer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	switch host, port, _ := net.SplitHostPort(address); {
	case slices.Contains(n.moved, address):
		return nil, errors.New("nothing is there")
	case address == seedName:
		address = n.to.Load().Address
	case host == seedHost: // another port of that host
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (n *namedServer) config() *driver.Config {
	c := connections()
	c.Dial = n.dial
	return c
}

// A name among the addresses is resolved for each connection. So the sentinels
// are found although none is at an address that they have named.
func TestSentinelsAreFoundByName(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, noFailover)
	n := &namedServer{moved: s.Addresses()}
	n.to.Store(s.Sentinels[0])
	p := sentinelOf(t, s, func(c *SentinelConfig) { c.Addresses, c.Servers = []string{seedName}, n.config() })
	requireMaster(t, p, s.Servers[0])
	n.to.Store(s.Sentinels[2])
	s.Sentinels[0].Kill(t)
	s.Sentinels[2].Do(t, "SENTINEL", "FAILOVER", redistest.SentinelName)
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Master(t, s.Sentinels[2]) != s.Servers[0] }, "no failover")
	requireSwitch(t, p, s.Master(t, s.Sentinels[2]), pollInterval+time.Second)
}

// So are the servers of a Cluster, also if all of them were replaced.
func TestClusterIsFoundByName(t *testing.T) {
	t.Parallel()
	first, second := redistest.StartCluster(t, 1, 0), redistest.StartCluster(t, 1, 0)
	n := &namedServer{}
	n.to.Store(first.Servers[0])
	p := clusterOf(t, []string{seedName}, func(c *ClusterConfig) { c.Servers = n.config() })
	requireAt := func(s *redistest.Server) {
		testkit.Eventually(t, testkit.Patience, func() bool {
			address, _ := p.Master(t.Context(), "k") // a server of loopback is at the host that was asked
			if strings.TrimPrefix(address, seedHost) == strings.TrimPrefix(s.Address, "127.0.0.1") {
				return true
			}
			p.Invalidate(address)
			return false
		}, "the name leads to the Cluster")
	}
	requireAt(first.Servers[0])
	n.to.Store(second.Servers[0])
	first.Servers[0].Kill(t)
	p.Invalidate(net.JoinHostPort(seedHost, first.Servers[0].Address[len("127.0.0.1:"):]))
	requireAt(second.Servers[0])
}

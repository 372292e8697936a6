package cluster

import (
	"net"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The servers of a Cluster are found by name, also if all of them were
// replaced.
func TestClusterIsFoundByName(t *testing.T) {
	t.Parallel()
	first, second := redistest.StartCluster(t, 1, 0), redistest.StartCluster(t, 1, 0)
	n := &redistest.NamedServer{}
	n.To.Store(first.Servers[0])
	p := clusterOf(t, []string{redistest.SeedName}, func(c *Config) { c.Servers.Dial = n.Dial })
	requireAt := func(s *redistest.Server) {
		testkit.Eventually(t, testkit.Patience, func() bool {
			address, _ := p.Master(t.Context(), "k") // a server of loopback is at the host that was asked
			if strings.TrimPrefix(address, redistest.SeedHost) == strings.TrimPrefix(s.Address, "127.0.0.1") {
				return true
			}
			p.Invalidate(address)
			return false
		}, "the name leads to the Cluster")
	}
	requireAt(first.Servers[0])
	n.To.Store(second.Servers[0])
	first.Servers[0].Kill(t)
	p.Invalidate(net.JoinHostPort(redistest.SeedHost, first.Servers[0].Address[len("127.0.0.1:"):]))
	requireAt(second.Servers[0])
}

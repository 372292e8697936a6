package sentinel

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A name among the addresses is resolved for each connection. So the sentinels
// are found although none is at an address that they have named.
func TestSentinelsAreFoundByName(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	n := &redistest.NamedServer{Moved: s.Addresses()}
	n.To.Store(s.Sentinels[0])
	p := sentinelOf(t, s, func(c *Config) { c.Addresses, c.Servers.Dial = []string{redistest.SeedName}, n.Dial })
	requireMaster(t, p, s.Servers[0])
	n.To.Store(s.Sentinels[2])
	s.Sentinels[0].Kill(t)
	s.Sentinels[2].Do(t, "SENTINEL", "FAILOVER", redistest.SentinelName)
	testkit.Eventually(t, testkit.Patience,
		func() bool { return s.Master(t, s.Sentinels[2]) != s.Servers[0] }, "no failover")
	requireSwitch(t, p, s.Master(t, s.Sentinels[2]), pollInterval+time.Second)
}

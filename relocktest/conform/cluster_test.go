package conform_test

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Every kind of lock keeps the promises of all on a Cluster, with sharded
// channels and without, also behind a faulty proxy of each master.
func TestConformanceOverCluster(t *testing.T) {
	t.Parallel()
	for channels, args := range map[string][]string{
		"sharded":   nil,
		"broadcast": {"--rename-command", "SSUBSCRIBE", "", "--rename-command", "SPUBLISH", ""}, // as before Redis 7.0
	} {
		// A machine that stalls is no failover.
		c := redistest.StartCluster(t, 3, 0, append(args, "--cluster-node-timeout", "20000")...)
		for name, k := range locktest.ConformKinds() {
			for _, mode := range k.Few {
				t.Run(channels+"/"+name+"/"+mode, func(t *testing.T) {
					t.Parallel()
					k.Run(t, inCluster(t, c), mode)
				})
			}
		}
	}
}

func inCluster(t *testing.T, c *redistest.Cluster) locktest.ConformServers {
	s := locktest.ConformServers{Prefix: locktest.NewConformPrefix(), All: c.Masters(t)}
	s.Of = func(key string) *redistest.Server { return c.MasterOf(t, s.Key(key)) }
	s.Client = func(t *testing.T, opts ...relock.ClientOption) *relock.Client {
		return locktest.ClusterClient(t, c, append(opts, relock.WithKeyPrefix(s.Prefix))...)
	}
	s.Behind = s.Mapped
	return s
}

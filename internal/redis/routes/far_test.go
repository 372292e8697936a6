package routes_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A client of a Cluster starts over a link on which TLS, the log-in and the
// table take longer together than a load may take at first.
func TestClusterOverAFarTLS(t *testing.T) {
	t.Parallel()
	address, config := redistest.StartClusterTLS(t, "secret")
	network := &faults.FarNetwork{Distance: 400 * time.Millisecond}
	start := time.Now()
	c := locktest.CloseLater(t)(relock.NewClientCluster([]string{address}, "secret",
		relock.WithTLS(config), relock.WithDialer(network.Dial)))
	require.NoError(t, relock.NewRedisLock("k", c).TryDo(t.Context(), locktest.Nothing))
	t.Logf("the first lock took %v and %d connections", time.Since(start), network.Dials())
}

// A client of a Cluster starts over a link on which each answer takes longer
// than a server may take at first, if the user's timeouts allow it.
func TestClusterOverAFarLink(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	network := &faults.FarNetwork{Distance: 1100 * time.Millisecond}
	start := time.Now()
	c := locktest.ClusterClient(t, s, relock.WithDialer(network.Dial),
		relock.WithDialTimeout(testkit.Patience), relock.WithCommandTimeout(testkit.Patience))
	require.NoError(t, relock.NewRedisLock("k", c).TryDo(t.Context(), locktest.Nothing))
	t.Logf("the first lock took %v and %d connections", time.Since(start), network.Dials())
}

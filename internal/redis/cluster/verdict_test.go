package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A server that is no part of a Cluster ends no wait while the others hang or
// are dead, and neither does one with an old password.
func TestServerThatSaysNoIsOutvoted(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 1, 0)
	master := s.Servers[0]
	alone, dead := redistest.StartTCP(t), redistest.StartTCP(t)
	master.Pause(t)
	dead.Kill(t)
	log := &testkit.Log{}
	seeds := []string{alone.Address, master.Address, dead.Address}
	logged := func() *Cluster {
		p := clusterOf(t, seeds)
		p.LogTo(log.Logger())
		return p
	}

	p := logged()
	_, err := p.Master(t.Context(), "k")
	require.True(t, lockspec.IsRetryable(err), err)
	log.RequireWarned(t, err, alone.Address+": it is no Cluster", master.Address+": read", dead.Address+": dial")
	alone.Do(t, "CONFIG", "SET", "requirepass", "another")
	log = &testkit.Log{}
	_, err = logged().Master(t.Context(), "k")
	require.True(t, lockspec.IsRetryable(err), err)
	log.RequireWarned(t, err, alone.Address+": permission denied", master.Address+": read", dead.Address+": dial")
	require.NotContains(t, err.Error(), "+cluster|shards", "a permission is not what is missing")

	master.Resume(t)
	testkit.Eventually(t, testkit.Patience, func() bool {
		address, err := p.Master(t.Context(), "k")
		return err == nil && address == master.Address
	}, "the wait goes on")
	_, err = clusterOf(t, []string{alone.Address, redistest.StartTCP(t).Address, dead.Address}).Master(t.Context(), "k")
	require.False(t, lockspec.IsRetryable(err), err)
}

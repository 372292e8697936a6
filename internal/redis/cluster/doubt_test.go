package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A server that hangs causes no more loads once it is no master of the table,
// though it is still being asked.
func TestMasterThatWasReplacedIsNotMissing(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 1, 0)
	p := clusterOf(t, s.Addresses())
	requireFound(t, p, s)
	const replaced = "127.0.0.1:1"
	p.Mu.Lock()
	p.doubted[replaced], p.asking[replaced] = time.Now(), make(chan struct{})
	p.Mu.Unlock()
	missing := testkit.Async(t, func() error {
		require.False(t, p.missing(time.Now().Add(time.Hour)))
		return nil
	})
	require.NoError(t, testkit.ResultWithin(t, missing, testkit.Patience))
}

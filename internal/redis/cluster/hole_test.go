package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/routes"
	"github.com/relock-go/relock/internal/redis/search"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// loseMaster kills the master of a key, and waits until the table has no other
// one. The replicas replace it when replace is called.
func loseMaster(t testing.TB, p *Cluster, s *redistest.Cluster, key string) (replace func()) {
	t.Helper()
	old := s.MasterOf(t, key)
	elect := func(refused string) {
		for _, one := range s.Replicas(old) {
			one.Do(t, "CONFIG", "SET", "cluster-replica-no-failover", refused)
		}
	}
	elect("yes")
	old.Kill(t)
	p.Invalidate(old.Address) // as one request does
	testkit.Eventually(t, testkit.Patience, func() bool { return p.inTable(key) == "" }, "the table has no master")
	return func() {
		elect("no")
		s.AwaitSuccessor(t, old)
	}
}

// inTable returns the master of a key, and asks for no load.
func (c *Cluster) inTable(key string) string { return c.table.Load().master(slotOf(key)) }

// Nobody asks for the key while its slot has no master. The table has the
// successor all the same.
func TestHoleInTheTableIsFilled(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 1)
	p := clusterOf(t, s.Addresses())
	requireFound(t, p, s)
	loseMaster(t, p, s, "k")()
	watch := testkit.NewStopwatch(t)
	next := s.MasterOf(t, "k").Address
	testkit.Eventually(t, testkit.Patience, func() bool { return p.inTable("k") == next }, "the table has the successor")
	watch.Within(loadPoll/4, "the next load comes anyway")
}

// A request for a slot without a master waits for it, and so does one for all
// masters, as that of a list or a ping. A job of a worker does
// not, because it has other jobs to send.
func TestRequestWaitsForTheMasterOfItsSlot(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 1)
	p := clusterOf(t, s.Addresses())
	requireFound(t, p, s)
	config := connections()
	config.DialTimeout = time.Hour // nothing but the successor ends the wait
	r := routes.NewRouter(config, p.Topology())
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	replace := loseMaster(t, p, s, "k")

	left, leave := context.WithCancel(t.Context())
	leave()
	_, err := r.Nodes(left)
	require.ErrorContains(t, err, "slots have no master that is online")
	_, err = r.Home(context.Background(), "k")
	require.ErrorContains(t, err, "has no master that is online")
	require.True(t, lockspec.IsRetryable(err), err)
	sent := testkit.Async(t, func() error {
		return r.Send(t.Context(), driver.Limits{}, driver.SetNX("k", "1", time.Hour)).Err
	})
	var nodes []driver.Node
	listed := testkit.Async(t, func() (err error) { nodes, err = r.Nodes(t.Context()); return err })
	for range 3 {
		require.NoError(t, p.Refresh(t.Context()))
	}
	require.Empty(t, sent, "it waits")
	require.Empty(t, listed, "it waits")
	replace()
	require.NoError(t, testkit.ResultWithin(t, sent, testkit.Patience))
	require.NoError(t, testkit.ResultWithin(t, listed, testkit.Patience))
	require.Len(t, nodes, 3)

	require.EqualValues(t, 1, s.MasterOf(t, "k").Do(t, "EXISTS", "k"))
}

// A request waits within its limit, and not for a slot that has no master for
// long.
func TestRequestWaitsForAMasterWithinItsLimit(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, "--cluster-enabled", "yes")
	s.Do(t, "CLUSTER", "ADDSLOTS", slotOf("k"))
	p := clusterOf(t, []string{s.Address})
	config := connections()
	config.DialTimeout = time.Hour
	r := routes.NewRouter(config, p.Topology())
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	ask := func(limit time.Duration) error {
		return r.Send(t.Context(), driver.Limits{Connect: limit}, driver.SetNX("other", "1", time.Hour)).Err
	}
	start := time.Now()
	err := ask(300 * time.Millisecond)
	require.ErrorContains(t, err, "has no master that is online")
	require.True(t, lockspec.IsRetryable(err), err)
	require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)

	known := *p.table.Load()
	known.holeAt = time.Now().Add(-missingFor)
	p.Mu.Lock()
	p.replace(&known)
	p.Mu.Unlock()
	result := testkit.Async(t, func() error { return ask(time.Hour) })
	require.ErrorContains(t, testkit.ResultWithin(t, result, testkit.Patience), "has no master that is online")
}

// A look that is under way does not count: it may have asked before.
func TestRefreshBeginsAfterTheCall(t *testing.T) {
	t.Parallel()
	s := search.New()
	s.Run = func() { <-s.Life.Done() }
	begin := func() {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		s.Begin()
	}
	conclude := func() {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		s.Conclude(nil)
	}
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	begin()
	done := testkit.Async(t, func() error { return s.Refresh(t.Context()) })
	isWanted := func() bool { return len(s.Soon) > 0 || len(done) > 0 }
	testkit.Eventually(t, testkit.Patience, isWanted, "a look is wanted")
	<-s.Soon // before the end, after which the channel may be full again
	conclude()
	testkit.Eventually(t, testkit.Patience, isWanted, "the next one is wanted")
	require.Empty(t, done)
	begin()
	conclude()
	require.NoError(t, testkit.ResultWithin(t, done, testkit.Patience))
}

package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// While a master fails, and requests to it do too, its slots are not asked for
// often. The successor is named soon, and the client is notified.
func TestClusterAfterAFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 1)
	p := clusterOf(t, s.Addresses())
	requireFound(t, p, s)
	old := s.MasterOf(t, "k")
	var others []*redistest.Server
	for _, one := range s.Servers {
		if one != old {
			others = append(others, one)
		}
	}
	before := loads(t, others...)
	old.Kill(t)
	start := time.Now()
	testkit.Eventually(t, redistest.NoFailover, func() bool {
		p.Invalidate(old.Address) // as requests do that fail
		address, err := p.Master(t.Context(), "k")
		return err == nil && address != old.Address
	}, "it names the successor")
	next := s.AwaitSuccessor(t, old)
	requireFound(t, p, s)
	address, err := p.Master(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, next.Address, address)
	n, took := loads(t, others...)-before, time.Since(start)
	t.Logf("%d loads in %v", n, took)
	require.LessOrEqual(t, n, 2+int(took/loadPause))
	requireChange(t, p)
}

// A master hangs, and a request notices that once. Its successor is found
// although nothing else asks for it. A server that answers again is not looked
// for.
func TestMasterThatHangsIsLookedFor(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 1)
	p := clusterOf(t, s.Addresses())
	requireFound(t, p, s)
	old := s.MasterOf(t, "k")
	p.Invalidate(old.Address)
	testkit.Eventually(t, testkit.Patience, func() bool { return !p.doubts(old) }, "it answers")
	before := loads(t, s.Servers...)
	time.Sleep(4 * loadPause)
	require.Equal(t, before, loads(t, s.Servers...))
	old.Pause(t)
	p.Invalidate(old.Address)
	next := s.AwaitSuccessor(t, old)
	require.Eventually(t, func() bool {
		address, err := p.Master(t.Context(), "k")
		return err == nil && address == next.Address
	}, redistest.NoFailover, 2*time.Millisecond)
	requireChange(t, p)
}

func (c *Cluster) doubts(s *redistest.Server) bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return !c.doubted[s.Address].IsZero()
}

func requireChange(t testing.TB, p *Cluster) {
	t.Helper()
	select {
	case <-p.Changes:
	default:
		require.FailNow(t, "the client is not notified")
	}
}

// However often a master fails, there are at most 10 loads a second. One that
// does not fail causes none, and neither does a server of another kind.
func TestLoadsAreLimited(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 1, 0)
	p := clusterOf(t, s.Addresses())
	requireFound(t, p, s)
	before := loads(t, s.Servers...)
	require.Positive(t, before)
	require.Never(t, func() bool {
		p.Invalidate("127.0.0.1:1")
		return loads(t, s.Servers...) > before
	}, 300*time.Millisecond, 10*time.Millisecond)
	start := time.Now()
	for loads(t, s.Servers...)-before < 8 {
		p.Invalidate(s.Servers[0].Address)
		p.Invalidate(s.Servers[0].Address)
		require.Less(t, time.Since(start), testkit.Patience, "they do come")
	}
	require.GreaterOrEqual(t, time.Since(start), 7*loadPause)
}

// A slot that has moved is at its new master from the first redirect on, and
// so is all that has moved with it soon. The answer ASK changes nothing.
func TestSlotThatMoves(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 2, 0)
	p := clusterOf(t, s.Addresses())
	requireFound(t, p, s)
	from, to := s.MasterOf(t, "k"), s.Servers[0]
	if from == to {
		to = s.Servers[1]
	}
	beside := s.NameAt(t, from, "beside")
	require.Equal(t, to.Address, p.Redirect("k", from.Address, to.Address, true))
	address, err := p.Master(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, from.Address, address)
	s.MoveSlot(t, slotOf("k"), to)
	s.MoveSlot(t, slotOf(beside), to)
	watch := testkit.NewStopwatch(t)
	require.Equal(t, to.Address, p.Redirect("k", from.Address, to.Address, false))
	address, err = p.Master(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, to.Address, address)
	require.Eventually(t, func() bool {
		address, _ := p.Master(t.Context(), beside)
		return address == to.Address
	}, redistest.NoFailover, time.Millisecond)
	watch.Within(loadPoll/4, "the next load comes anyway")
	requireFound(t, p, s)
	select {
	case <-p.Changes:
		require.Fail(t, "no master has come or gone")
	default:
	}
	require.Equal(t, "127.0.0.1:7", p.Redirect("k", from.Address, "127.0.0.1:7", false))
	requireChange(t, p) // a load may have undone it already
}

// A load does not undo a redirect that came after it began: the server may
// have answered before the slot moved. A later load does.
func TestLoadUndoesNoNewerCorrection(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 2, 0)
	p := clusterOf(t, s.Addresses()) // it never runs: the test makes its loads
	p.load()
	old := s.MasterOf(t, "k").Address
	for _, first := range []bool{false, true} {
		order, limit, _ := p.begin()
		found := p.timed(t.Context(), order[0], limit)
		require.NoError(t, found.err)
		if first { // the table has it already, from a load or another request
			p.table.Store(p.table.Load().with(slotOf("k"), "127.0.0.1:7"))
		}
		require.Equal(t, "127.0.0.1:7", p.Redirect("k", old, "127.0.0.1:7", false))
		p.finish(found, nil)
		address, err := p.Master(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1:7", address)
		p.load()
		requireFound(t, p, s)
	}
}

// Servers that failed are asked after the others, and one that has redirected a
// request before them.
func TestServersThatFailedAreAskedLast(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	p := clusterOf(t, append([]string{"127.0.0.1:1"}, s.Addresses()...)) // it never runs
	p.load()
	failing := s.Servers[1]
	p.Invalidate(failing.Address)
	for range 20 {
		order, _, _ := p.begin()
		require.ElementsMatch(t, append(s.Addresses(), "127.0.0.1:1"), order)
		require.ElementsMatch(t, []string{failing.Address, "127.0.0.1:1"}, order[2:])
	}
	p.Redirect("k", failing.Address, s.MasterOf(t, "k").Address, false)
	require.Equal(t, failing.Address, orderOf(p)[0])
	require.Equal(t, "127.0.0.1:1", orderOf(p)[3])
	p.Invalidate(failing.Address)
	failing.Pause(t)
	watch := testkit.NewStopwatch(t)
	p.load()
	watch.Within(firstLimit)
	failing.Resume(t)
	s.Servers[0].Kill(t)
	s.Servers[2].Kill(t)
	p.load()
	require.NotContains(t, p.doubted, failing.Address, "it has answered")
}

func orderOf(p *Cluster) []string {
	order, _, _ := p.begin()
	return order
}

package topology

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// awaitRefusal waits for a look that fails with this text. Until then the
// master fails, and is named all the same.
func awaitRefusal(t testing.TB, p *Sentinel, master *redistest.Server, text string) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		requireMaster(t, p, master)
		p.Invalidate(master.Address)
		err := p.lastError()
		return err != nil && strings.Contains(err.Error(), text)
	}, text)
}

// awaitMaster waits until the topology names the server.
func awaitMaster(t testing.TB, p *Sentinel, s *redistest.Server) {
	t.Helper()
	requireSwitch(t, p, s, testkit.Patience)
}

// The only sentinel that answers missed a failover, and the old master runs
// again and says that it is a master. The client does not return to it.
func TestSentinelThatMissedAFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, noFailover)
	p := sentinelOf(t, s)
	old, stale := s.Servers[0], s.Sentinels[2]
	requireMaster(t, p, old)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(p.order()) == 3 }, "all are known")
	stale.Kill(t)
	old.Kill(t)
	s.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", redistest.SentinelName)
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Master(t, s.Sentinels[0]) != old }, "a successor")
	next := s.Master(t, s.Sentinels[0])
	awaitMaster(t, p, next)

	s.Sentinels[0].Kill(t)
	s.Sentinels[1].Kill(t)
	next.Pause(t)
	old.Boot(t)
	stale.Boot(t)
	require.Equal(t, old, s.Master(t, stale))
	awaitRefusal(t, p, next, stale.Address+": names server "+old.Address+" by configuration epoch 0")

	next.Resume(t)
	s.Sentinels[0].Boot(t)
	testkit.Eventually(t, testkit.Patience, func() bool { return p.lastError() == nil }, "another sentinel confirms it")
	requireMaster(t, p, next)
}

// All sentinels were set up anew, so none has the epoch that the client has
// seen. One such answer does not count. All of them together do.
func TestSentinelsAreSetUpAnew(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, noFailover)
	p := sentinelOf(t, s)
	requireMaster(t, p, s.Servers[0])
	s.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", redistest.SentinelName)
	first := s.AwaitSuccessor(t, s.Servers[0])
	awaitMaster(t, p, first)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(p.order()) == 3 }, "all are known")

	second := s.Replicas(first)[0]
	for _, one := range s.Sentinels {
		one.Do(t, "SENTINEL", "REMOVE", redistest.SentinelName)
	}
	second.Do(t, "REPLICAOF", "NO", "ONE")
	monitor := func(one *redistest.Server) {
		one.Do(t, "SENTINEL", "MONITOR", redistest.SentinelName, "127.0.0.1", second.Address[len("127.0.0.1:"):], 1)
	}
	monitor(s.Sentinels[1])
	awaitRefusal(t, p, first, s.Sentinels[1].Address+": names server "+second.Address)
	monitor(s.Sentinels[0])
	monitor(s.Sentinels[2])
	awaitMaster(t, p, second)
}

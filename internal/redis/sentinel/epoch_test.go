package sentinel

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
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
// again and calls itself a master. The client does not return to it.
func TestSentinelThatMissedAFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
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
	s := redistest.StartSentinels(t, redistest.NoFailover)
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
	monitor(t, s.Sentinels[1], second)
	awaitRefusal(t, p, first, s.Sentinels[1].Address+": names server "+second.Address)
	monitor(t, s.Sentinels[0], second)
	monitor(t, s.Sentinels[2], second)
	awaitMaster(t, p, second)
}

// One sentinel was set up anew, with the old master, which the others have
// forgotten. If it is the only one that answers, the client stays with the
// master that it knows, however often it looks.
func TestOneSentinelIsSetUpAnew(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	first, anew, last := s.Sentinels[0], s.Sentinels[2], s.Sentinels[1]
	p := sentinelOf(t, s, func(c *Config) { c.Addresses = []string{first.Address, anew.Address, last.Address} })
	old := s.Servers[0]
	requireMaster(t, p, old)
	old.Kill(t)
	first.Do(t, "SENTINEL", "FAILOVER", redistest.SentinelName)
	next := s.AwaitSuccessor(t, old)
	awaitMaster(t, p, next)
	awaitEndOfFailover(t, s, next)
	anew.Do(t, "SENTINEL", "REMOVE", redistest.SentinelName)
	for _, other := range []*redistest.Server{first, last} { // so they forget the old master, and the sentinel
		require.Equal(t, int64(1), other.Do(t, "SENTINEL", "RESET", redistest.SentinelName))
	}
	old.Boot(t)
	monitor(t, anew, old)

	first.Kill(t)
	testkit.Eventually(t, testkit.Patience, func() bool {
		_ = p.Refresh(t.Context())
		requireMaster(t, p, next)
		return p.order()[0] == last.Address
	}, "the last one confirms what is known")
	require.Equal(t, old, s.Master(t, anew))

	last.Kill(t)
	awaitRefusal(t, p, next, anew.Address+": names server "+old.Address+" by configuration epoch 0")
	for range 5 {
		require.Error(t, p.Refresh(t.Context()))
		requireMaster(t, p, next)
	}
	require.Equal(t, old, s.Master(t, anew))
}

// awaitEndOfFailover waits until no sentinel is busy with it, and the other
// replica copies the new master. A reset before that would undo it.
func awaitEndOfFailover(t testing.TB, s *redistest.Sentinels, next *redistest.Server) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		for _, one := range s.Sentinels {
			state, err := redis.StringMap(one.Try(t, "SENTINEL", "MASTER", redistest.SentinelName))
			if err != nil || "127.0.0.1:"+state["port"] != next.Address ||
				strings.Contains(state["flags"], "failover_in_progress") {
				return false
			}
		}
		role, err := redis.Values(next.Try(t, "ROLE"))
		if err != nil || len(role) != 3 {
			return false
		}
		replicas, _ := redis.Values(role[2], nil)
		return len(replicas) == 1
	}, "the end of the failover")
}

// monitor sets a sentinel up for a master.
func monitor(t testing.TB, sentinel, master *redistest.Server) {
	t.Helper()
	sentinel.Do(t, "SENTINEL", "MONITOR", redistest.SentinelName, "127.0.0.1", master.Address[len("127.0.0.1:"):], 1)
}

// Two failovers between two looks may lead back to the same master, which has
// lost what it had not replicated. Clients are notified, because the epoch is
// greater.
func TestMasterThatWasReplacedForAWhile(t *testing.T) {
	t.Parallel()
	master := redistest.StartTCP(t)
	_, port, err := net.SplitHostPort(master.Address)
	require.NoError(t, err)
	var epoch atomic.Int64
	epoch.Store(1)
	sentinel := redistest.ServeReplies(t, func(args []string) string {
		switch len(args) {
		case 3:
			if args[1] == "MASTER" {
				return fmt.Sprintf("*2\r\n$12\r\nconfig-epoch\r\n$1\r\n%d\r\n", epoch.Load())
			}
			return fmt.Sprintf("*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", len(port), port)
		default:
			return "-NOPERM\r\n"
		}
	})
	p := open(t, func(c *Config) { c.Addresses = []string{sentinel.Address} })
	requireMaster(t, p, master)
	require.NoError(t, p.Refresh(t.Context()))
	require.Empty(t, p.Changes, "nothing has changed")
	epoch.Store(3)
	require.NoError(t, p.Refresh(t.Context()))
	require.Len(t, p.Changes, 1)
	requireMaster(t, p, master)
}

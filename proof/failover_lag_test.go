package proof

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Sentinel may promote a replica that is behind. Then a lock that only the
// other replica has confirmed is lost, and two holds are valid together. A lock
// that all replicas have to confirm is not granted.
func TestFailoverToAReplicaThatIsBehind(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, downAfter)
	first, behind := s.Servers[0], s.Servers[2]
	promoteBehind(t, s, behind)
	lock := func(opts ...relock.LockOption) *relock.RedisLock {
		c := locktest.SentinelClient(t, s, relock.WithKeyPrefix(prefix))
		return relock.NewRedisLock("k", c, append(opts, relock.WithExpiry(time.Minute))...)
	}
	require.ErrorIs(t, lock(relock.WithReplicas(2, 200*time.Millisecond)).Lock(t.Context()), relock.ErrReplicas)
	one := locktest.Take(t, lock(relock.WithReplicas(1, 5*time.Second), relock.WithBlock()).Acquire)
	s.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", redistest.SentinelName)
	require.Same(t, behind, s.AwaitSuccessor(t, first))
	two := locktest.Take(t, lock(relock.WithBlock()).Acquire)
	requireUnlessFound(t, one, "the lock was confirmed by one replica of two, and lost")
	require.NoError(t, two.Err())
}

// An operator, or the death of a server, can give up the move of a slot. The
// locks that were granted at its target are lost then, whatever the replicas of
// the target have: the slot's owner lacks them. Two holds are valid until the
// next renewal of the first. After the death of the source, the target serves
// no slot until the move is ended there.
func TestLocksAtTheTargetOfAMoveThatIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(
		t *testing.T, c *redistest.Cluster, source, target *redistest.Server, slot int,
	){
		"by SETSLOT STABLE": func(t *testing.T, _ *redistest.Cluster, source, _ *redistest.Server, slot int) {
			source.Do(t, "CLUSTER", "SETSLOT", slot, "STABLE")
		},
		"by the death of its source": func(t *testing.T, c *redistest.Cluster, source, target *redistest.Server, _ int) {
			source.Kill(t)
			awaitText(t, "role:master", c.Replicas(source)[0], "INFO", "replication")
			awaitText(t, "cluster_state:fail", target, "CLUSTER", "INFO")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, 3, 1)
			lock := func(opts ...relock.LockOption) *relock.RedisLock {
				return relock.NewRedisLock("k", locktest.ClusterClient(t, c, relock.WithKeyPrefix(prefix)),
					append(opts, relock.WithWatchdog(time.Minute))...)
			}
			slot := c.SlotOf(t, prefix+"{k}")
			source := c.Master(t, slot)
			target := otherThan(t, c, source)
			c.BeginMove(t, slot, target)
			one := locktest.Take(t, lock(relock.WithReplicas(1, time.Second), relock.WithBlock()).Acquire)
			giveUp(t, c, source, target, slot)
			two := locktest.Take(t, lock(relock.WithBlock()).Acquire)
			requireUnlessFound(t, one, "a replica of the target has the lock, and the owner of the slot lacks it")
			require.NoError(t, two.Err())
			testkit.Eventually(t, testkit.Patience, func() bool {
				locktest.RenewNow(one) // the first may go to the dead server
				return one.Err() != nil
			}, "the first hold is not lost")
			require.ErrorIs(t, one.Err(), relock.ErrLockLost)
			require.NoError(t, two.Unlock(t.Context()))
			target.Do(t, "CLUSTER", "SETSLOT", slot, "STABLE")
			awaitText(t, "cluster_state:ok", target, "CLUSTER", "INFO")
		})
	}
}

// requireUnlessFound requires that the holder of a lock that a server has lost
// does not know it, unless one of its requests has found it meanwhile.
func requireUnlessFound(t *testing.T, one relock.Hold, why string) {
	t.Helper()
	if err := one.Err(); err != nil {
		require.ErrorIs(t, err, relock.ErrLockLost, why)
		require.ErrorContains(t, err, "the server no longer has it", why)
	}
}

// awaitText waits until the answer to a command contains a text.
func awaitText(t *testing.T, text string, s *redistest.Server, command string, args ...any) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		answer, err := redis.String(s.Do(t, command, args...), nil)
		require.NoError(t, err)
		return strings.Contains(answer, text)
	}, "it says "+text)
}

// promoteBehind makes the sentinels promote this replica in the next failover,
// although the other one has newer data: its link is cut until then.
func promoteBehind(t *testing.T, s *redistest.Sentinels, replica *redistest.Server) {
	t.Helper()
	replica.Do(t, "CONFIG", "SET", "replica-priority", 1)
	for _, sentinel := range s.Sentinels {
		testkit.Eventually(t, testkit.Patience, func() bool {
			replicas, _ := redis.Values(sentinel.Try(t, "SENTINEL", "REPLICAS", redistest.SentinelName))
			return slices.ContainsFunc(replicas, func(one any) bool {
				fields, _ := redis.StringMap(one, nil)
				return strings.HasSuffix(replica.Address, ":"+fields["port"]) && fields["slave-priority"] == "1"
			})
		}, "a sentinel does not know the priority")
	}
	redistest.CutReplication(t, s.MasterOf(t, ""), replica)
}

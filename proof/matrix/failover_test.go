package matrix_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// pair is a master and its replica, behind one address, and a client of it.
type pair struct {
	*locktest.Replicated
	client *relock.Client
	proxy  *faults.Proxy
}

func newPair(t testing.TB) *pair {
	r := locktest.NewReplicated(t)
	c, proxy := locktest.Behind(t, r.Master)
	return &pair{r, c, proxy}
}

// failOver makes the replica the master when it has the keys. The old master
// becomes its replica.
func (p *pair) failOver(keys ...string) {
	p.promote(keys...)
	p.Master.Follow(p, p.Replica)
}

func (p *pair) promote(keys ...string) {
	for _, key := range keys {
		testkit.Eventually(p, testkit.Patience, func() bool { return p.Replica.Do(p, "EXISTS", key) == int64(1) },
			"the replica is behind")
	}
	p.Replica.Do(p, "REPLICAOF", "NO", "ONE")
	p.proxy.Redirect(p.Replica.Address)
}

// forget is failOver with a master that has lost a key, and that cannot reach
// the new one.
func (p *pair) forget(key string) {
	p.promote(key)
	p.Master.Do(p, "DEL", key)
	demote(p, p.Master)
}

// demote makes a server a replica whose master cannot be reached.
func demote(t testing.TB, s *redistest.Server) {
	t.Helper()
	s.Do(t, "REPLICAOF", "127.0.0.1", redistest.FreePort(t))
}

// After a planned failover behind one address the connections lead to the old
// master, which answers READONLY. A hold goes over to new ones: the new master
// has the key. A blocking call goes over, too.
func TestHoldSurvivesFailoverBehindOneAddress(t *testing.T) {
	t.Parallel()
	const lease = time.Minute // of which a command has a third: a machine that stalls must not cost a connection
	p := newPair(t)
	h := locktest.Take(t, relock.NewRedisLock("lock", p.client, relock.WithWatchdog(lease)).Acquire)
	locktest.Renew(t, h, testkit.Patience) // the watchdog has a connection
	p.failOver(locktest.KeyOf(p.client, "lock"))
	for range 2 {
		locktest.Renew(t, h, testkit.Patience)
		require.NoError(t, h.Err(), "lost, though the new master has the key")
	}
	require.NoError(t, relock.NewRedisLock("another", p.client).TryLock(t.Context()),
		"the watchdog has seen it: no call need meet the old master")
	require.NoError(t, h.Unlock(t.Context()))
}

func TestBlockingLockFollowsFailoverBehindOneAddress(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	lock := relock.NewRedisLock("lock", p.client, relock.WithBlockTimeout(testkit.Patience))
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	p.failOver()
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
}

// A connection that leads to the old master after a failover, where the key has
// gone, makes no hold lost if the new master has it.
func TestOldMasterHasForgottenTheHold(t *testing.T) {
	t.Parallel()
	var cells []locktest.Subtest
	for kind, lock := range replicatedKinds() {
		for call, do := range map[string]func(context.Context, relock.Hold) error{
			"extend": func(ctx context.Context, h relock.Hold) error {
				if err := h.Extend(ctx, 2*time.Minute); !relock.IsRetryableErr(err) {
					return err
				}
				return h.Extend(ctx, 2*time.Minute) // over another connection
			},
			"unlock": func(ctx context.Context, h relock.Hold) error { return h.Unlock(ctx) },
		} {
			if kind != "RedisLock" && kind != "ReentrantLock" && kind != "RWLock" {
				continue
			}
			cells = append(cells, locktest.Subtest{Name: kind + "/" + call, Run: func(t testing.TB) {
				p := newPair(t)
				h := locktest.Take(t, lock(p.client, relock.WithWatchdog(time.Minute)).Acquire)
				p.forget(locktest.KeyOf(p.client, "k"))
				require.NoError(t, do(t.Context(), h))
			}})
		}
	}
	locktest.RunTogether(t, cells)
}

// If the new master does not have the key either, the hold is lost, and Unlock
// reports the loss.
func TestNeitherMasterHasTheHold(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	h := locktest.Take(t, relock.NewRedisLock("k", p.client, relock.WithWatchdog(time.Minute)).Acquire)
	p.forget(locktest.KeyOf(p.client, "k"))
	p.Replica.Do(t, "DEL", locktest.KeyOf(p.client, "k"))
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
}

// A master that becomes a replica while a call waits for replicas ends that
// wait: the call goes on at the new master.
func TestMasterIsDemotedDuringTheWait(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Replica.Do(t, "REPLICAOF", "NO", "ONE")
	lock := relock.NewRedisLock("k", p.client, relock.WithBlock(), relock.WithReplicas(1, 2*time.Second))
	waits := testkit.Async(t, func() error { return lock.Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience,
		func() bool { return p.Master.Info(t, "clients", "blocked_clients") == 1 }, "no WAIT")
	p.failOver()
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
	require.Equal(t, int64(1), p.Replica.Do(t, "EXISTS", locktest.KeyOf(p.client, "k")))
	require.NoError(t, lock.Unlock(t.Context()))
}

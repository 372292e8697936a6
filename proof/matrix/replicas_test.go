package matrix_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

type newLock func(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock

// replicatedKinds are the ways to take a lock.
func replicatedKinds() map[string]newLock {
	all := map[string]newLock{}
	for _, name := range []string{"RedisLock", "ReentrantLock", "RWLock", "MultiLock"} {
		lock := locktest.AllKinds[name]
		all[name] = func(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock { return lock("k", c, opts...) }
		if name != "MultiLock" {
			all[name+", fair"] = func(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
				return lock("k", c, append(opts, relock.WithFair())...)
			}
		}
	}
	all["MultiLock, key by key"] = func(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
		locktest.Engine(c).OneByOne.Store(true) // as on a Cluster
		return all["MultiLock"](c, opts...)
	}
	return all
}

// A lock that a replica has survives the failover. One that no replica has is
// lost, and two are valid; with WithReplicas it is not granted.
func TestFailoverLosesOnlyWhatNoReplicaHas(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	kept, lost := map[*relock.Client]relock.Hold{}, map[*relock.Client]relock.Hold{}
	kinds := map[*relock.Client]newLock{}
	for _, lock := range replicatedKinds() {
		c := locktest.NewTestClient(t, r.Master)
		kinds[c], kept[c] = lock, locktest.Take(t, lock(c, locktest.OneReplica).Acquire)
	}
	r.Disconnect()
	for name, lock := range replicatedKinds() {
		c := locktest.NewTestClient(t, r.Master)
		_, err := lock(c, relock.WithReplicas(1, 200*time.Millisecond)).Acquire(t.Context())
		require.ErrorIs(t, err, relock.ErrReplicas, name)
		require.True(t, relock.IsRetryableErr(err), name)
		testkit.Eventually(t, testkit.Patience, func() bool {
			return r.Master.Do(t, "EXISTS", locktest.KeyOf(c, "k"), locktest.KeyOf(c, locktest.OtherKey)) == int64(0)
		}, "is released")
		kinds[c], lost[c] = lock, locktest.Take(t, lock(c).Acquire)
	}
	r.FailOver()
	for c, h := range kept {
		_, err := kinds[c](locktest.Sibling(t, r.Replica, c)).Acquire(t.Context())
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		require.NoError(t, h.Err())
	}
	for c, h := range lost {
		second := locktest.Take(t, kinds[c](locktest.Sibling(t, r.Replica, c)).Acquire)
		require.NoError(t, h.Err())
		require.NoError(t, second.Err(), "the control: two are valid")
		require.NoError(t, second.Unlock(t.Context()))
	}
}

// A master that was replaced goes on for the clients that reach it. Its holds
// are renewed, and those of the new master too: both are valid for as long as
// that lasts. One that waits for a replica ends before others get the lock.
func TestSplitBrainLastsUntilItEnds(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	c := locktest.NewTestClient(t, r.Master)
	beyond := locktest.Sibling(t, r.Replica, c)
	take := func(c *relock.Client, key string, opts ...relock.LockOption) relock.Hold {
		return locktest.Take(t,
			relock.NewRedisLock(key, c, append(opts, relock.WithWatchdog(replicaLease), relock.WithBlock())...).Acquire)
	}
	old, safe := take(c, "k"), take(c, "safe", locktest.OneReplica)
	r.Disconnect() // the master hears nothing of its successor
	other, next := take(beyond, "k"), take(beyond, "safe")
	require.ErrorIs(t, safe.Err(), relock.ErrLockLost)
	require.NoError(t, next.Err())
	for range 4 { // a third of the lease each
		locktest.Renew(t, old, testkit.Patience)
		locktest.Renew(t, other, testkit.Patience)
		require.NoError(t, old.Err())
		require.NoError(t, other.Err())
	}
}

// After the promotion of its only replica a master has none. So it grants
// nothing WithReplicas until the old master is back.
func TestNewMasterWithoutAReplica(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	r.FailOver()
	c := locktest.NewTestClient(t, r.Replica)
	require.ErrorIs(t, relock.NewRedisLock("k", c, relock.WithReplicas(1, 200*time.Millisecond)).Lock(t.Context()),
		relock.ErrReplicas)
	r.Master.BootAndLoad(t)
	r.Master.Follow(t, r.Replica)
	h := locktest.Take(t, relock.NewRedisLock("k", c, locktest.OneReplica, relock.WithBlock()).Acquire)
	require.NoError(t, h.Unlock(t.Context()))
}

// A hold that comes from a hand-off waits for its replicas too.
func TestHandOffWaitsForReplicas(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	var benches []*locktest.QueueBench
	var holds []relock.Hold
	var waits []*locktest.Waiting
	for _, m := range locktest.QueueModes {
		q := locktest.NewQueueBenchOn(t, r.Master, m, 2)
		benches = append(benches, q)
		holds = append(holds, q.Take(q.Clients[0]))
		waits = append(waits, q.WaitNext(t.Context(), 0, q.Clients[1], locktest.OneReplica))
	}
	r.Disconnect()
	for i, h := range holds {
		benches[i].Unlock(h)
	}
	time.Sleep(1500 * time.Millisecond) // for what should not happen
	for i, w := range waits {
		require.False(t, w.HasEnded(), "%s is granted without a replica: %v", benches[i].Title(), w.Err)
	}
	r.Connect()
	for i, w := range waits {
		holds[i] = w.Granted()
	}
	r.FailOver()
	for i, h := range holds {
		require.Equal(t, int64(1), r.Replica.Do(t, "EXISTS", benches[i].Key))
		require.NoError(t, h.Err())
	}
}

// replicaLease outlives a machine that stalls. A command has a third of it.
const replicaLease = 4 * time.Second

// A renewal that no replica has makes no hold valid for longer: it is lost when
// the last confirmed lease ends.
func TestRenewalNeedsReplicas(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	holds, others := map[string]relock.Hold{}, map[string]relock.Hold{}
	lease := relock.WithWatchdog(replicaLease)
	for name, lock := range replicatedKinds() {
		c := locktest.NewTestClient(t, r.Master)
		holds[name] = locktest.Take(t, lock(c, lease, relock.WithReplicas(1, time.Second)).Acquire)
		others[name] = locktest.Take(t, relock.NewRedisLock("another", c, lease).Acquire)
	}
	for name, h := range holds {
		locktest.Renew(t, h, testkit.Patience)
		require.NoError(t, h.Err(), "%s: renewals are confirmed", name)
	}
	r.Disconnect()
	for name, h := range holds {
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost, name)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost, name)
		require.NoError(t, others[name].Err(), "%s: asks for no replica", name)
		require.NoError(t, others[name].Unlock(t.Context()), name)
	}
}

// The replicas of a server that do not come cost its own holds their validity,
// and those of another server nothing.
func TestReplicasOfTwoServers(t *testing.T) {
	t.Parallel()
	cut, well := locktest.NewReplicated(t), locktest.NewReplicated(t)
	p := locktest.NewTopology(false, cut.Master, well.Master)
	if p.Of("k") != cut.Master {
		cut, well = well, cut
	}
	other := p.NameAt(well.Master)
	opts := []relock.LockOption{relock.WithWatchdog(replicaLease), relock.WithReplicas(1, time.Second)}
	lost, kept := map[string]relock.Hold{}, map[string]relock.Hold{}
	var last *relock.Client
	for name, lock := range replicatedKinds() {
		last = p.Client(t, relock.WithKeyPrefix(name+":"))
		lost[name], kept[name] = locktest.Take(t, lock(last, opts...).Acquire),
			locktest.Take(t, relock.NewRedisLock(other, last, opts...).Acquire)
	}
	cut.Disconnect()
	for name, h := range lost {
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost, name)
	}
	_, err := relock.NewRedisLock(p.NameAt(cut.Master), last, opts...).Acquire(t.Context())
	require.ErrorIs(t, err, relock.ErrReplicas)
	for name, h := range kept {
		locktest.Renew(t, h, testkit.Patience)
		require.NoError(t, h.Unlock(t.Context()), name)
	}
}

// A lock whose replicas do not come delays no renewal of one that waits for
// others.
func TestReplicasThatDoNotComeDelayNoOtherRenewal(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	second := redistest.StartTCP(t)
	second.Follow(t, r.Master)
	c := locktest.NewTestClient(t, r.Master)
	eventually := func(key string, lease time.Duration, replicas int, timeout time.Duration) (h relock.Hold) {
		testkit.Eventually(t, testkit.Patience, func() (ok bool) {
			var err error
			h, err = relock.NewRedisLock(key, c, relock.WithWatchdog(lease), relock.WithReplicas(replicas, timeout)).
				Acquire(t.Context())
			return err == nil
		}, "the replicas follow")
		return h
	}
	both := eventually("both", 16*time.Second, 2, 4*time.Second)
	one := eventually("one", 4*time.Second, 1, time.Second)
	second.Pause(t)
	defer second.Resume(t)
	locktest.RenewNow(both)
	time.Sleep(6 * time.Second) // longer than the lease of the one, more than half of which the other has waited
	require.NoError(t, one.Err())
	require.NoError(t, one.Unlock(t.Context()))
	require.NoError(t, both.Unlock(t.Context()))
}

// A renewal whose WAIT is refused says why, not that replicas are missing. A
// server that has become a replica before it is asked for its own has another
// error: what it took is released.
func TestWaitIsRefused(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	var log locktest.LogBuffer
	c, proxy := locktest.Behind(t, r.Master, log.Option())
	proxy.On(faults.Command("WAIT"), 1, faults.ErrorLine("ERR WAIT cannot be used with replica instances. "+
		"Please also note that writes to replicas are just local and are not propagated."))
	lock := relock.NewRedisLock("k", c, locktest.OneReplica)
	err := lock.Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrReplicas)
	require.True(t, relock.IsRetryableErr(err))
	testkit.Eventually(t, testkit.Patience,
		func() bool { return r.Master.Do(t, "EXISTS", locktest.KeyOf(c, "k")) == int64(0) }, "released")

	h := locktest.Take(t, lock.Acquire)
	proxy.On(faults.Command("WAIT"), faults.Every,
		faults.ErrorLine("NOPERM this user has no permissions to run the 'wait' command"))
	locktest.RenewNow(h)
	testkit.Eventually(t, testkit.Patience,
		func() bool { return strings.Contains(log.String(), "renewal failed") }, "is logged")
	require.Contains(t, log.String(), relock.ErrDenied.Error())
	require.NotContains(t, log.String(), relock.ErrReplicas.Error())
	require.NoError(t, h.Unlock(t.Context()))
}

// Replicas may take longer than a command may, for a grant and for renewals,
// over any pool.
func TestReplicasMayTakeLongerThanACommand(t *testing.T) {
	t.Parallel()
	cell := func(client func(testing.TB, *redistest.Server, ...relock.ClientOption) *relock.Client) func(testing.TB) {
		return func(t testing.TB) {
			r := locktest.NewReplicated(t)
			locktest.WithScripts(t, r.Master)
			w := locktest.NewWitness(t)
			c := client(t, r.Master, relock.WithCommandTimeout(locktest.AnswerLimit), relock.WithObserver(w.Observer()))
			r.Replica.Pause(t)
			defer time.AfterFunc(1200*time.Millisecond, func() { r.Replica.Resume(t) }).Stop()
			start := time.Now()
			h := locktest.Take(t,
				relock.NewRedisLock("k", c, relock.WithWatchdog(time.Minute), relock.WithReplicas(1, 15*time.Second)).Acquire)
			require.Greater(t, time.Since(start), time.Second)
			for n := range 2 {
				r.Replica.Pause(t)
				locktest.RenewNow(h)
				time.Sleep(1200 * time.Millisecond)
				r.Replica.Resume(t)
				testkit.Eventually(t, testkit.Patience, func() bool { return len(w.Renewals()) > n }, "renewed")
			}
			for _, e := range w.Renewals() {
				require.NoError(t, e.Err)
			}
			require.NoError(t, h.Unlock(t.Context()))
		}
	}
	locktest.RunTogether(t, []locktest.Subtest{
		{Name: "own pool", Run: cell(locktest.NewTestClient)},
		{Name: "user's pool", Run: cell(func(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
			return locktest.AsUserPool(t, s, &redis.Pool{}, opts...)
		})},
	})
}

// Extend, re-entry and an upgrade wait for replicas too. The keys of a
// MultiLock are extended one after another then: a small pool is enough. A
// reader that may not write for want of replicas lets others go on reading.
func TestCallsOnAHoldWaitForReplicas(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := locktest.NewReplicated(t)
	small := locktest.NewTestClient(t, r.Master, relock.WithMaxActive(1))
	many := locktest.Take(t, relock.NewMultiLock([]string{"a", "b", "c", "d"}, small, locktest.OneReplica).Acquire)
	require.NoError(t, many.Extend(ctx, time.Minute))
	c := locktest.NewTestClient(t, r.Master)
	l := locktest.Owned("me", relock.NewReentrantLock("k", c, locktest.OneReplica))
	h := locktest.Take(t, l.Acquire)
	require.NoError(t, l.Lock(ctx))
	require.NoError(t, h.Extend(ctx, time.Minute))
	until := h.ValidUntil()
	rw := locktest.OwnedRW("me", relock.NewRWLock("rw", c, locktest.OneReplica))
	require.NoError(t, rw.RLock(ctx))
	require.NoError(t, rw.RLock(ctx))
	r.Disconnect()

	watch := testkit.NewStopwatch(t)
	require.ErrorIs(t, many.Extend(ctx, time.Hour), relock.ErrReplicas)
	watch.Within(3*time.Second, "the first key that too few replicas have is the last one that is tried")
	require.NoError(t, many.Err())
	require.NoError(t, many.Unlock(ctx))

	require.ErrorIs(t, h.Extend(ctx, time.Hour), relock.ErrReplicas)
	require.Equal(t, until, h.ValidUntil())
	require.ErrorIs(t, l.Lock(ctx), relock.ErrReplicas)
	require.Equal(t, 2, relock.NewReentrantLock("k", c).HoldCount(locktest.As(t, "me")))
	require.NoError(t, l.Unlock(ctx))
	require.NoError(t, l.Unlock(ctx))

	require.ErrorIs(t, rw.Lock(ctx), relock.ErrReplicas)
	require.ErrorIs(t, rw.Unlock(ctx), relock.ErrNotHeld)
	other := locktest.OwnedRW("other",
		relock.NewRWLock("rw", locktest.Sibling(t, r.Master, c), relock.WithBlockTimeout(10*time.Second)))
	require.NoError(t, other.RLock(ctx))
	require.NoError(t, other.RUnlock(ctx))
	require.NoError(t, rw.RUnlock(ctx))
	require.NoError(t, rw.RUnlock(ctx))
}

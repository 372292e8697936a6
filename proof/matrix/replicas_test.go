package matrix_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// replicatedKinds are the ways to take a lock.
func replicatedKinds() map[string]func(c *relock.Client, opts ...relock.LockOption) locktest.Acquirer {
	return map[string]func(c *relock.Client, opts ...relock.LockOption) locktest.Acquirer{
		"RedisLock": func(c *relock.Client, opts ...relock.LockOption) locktest.Acquirer {
			return relock.NewRedisLock("k", c, opts...)
		},
		"RedisLock, fair": func(c *relock.Client, opts ...relock.LockOption) locktest.Acquirer {
			return relock.NewRedisLock("k", c, append(opts, relock.WithFair())...)
		},
		"ReentrantLock": func(c *relock.Client, opts ...relock.LockOption) locktest.Acquirer {
			return relock.NewReentrantLock("k", c, opts...)
		},
		"ReentrantLock, fair": func(c *relock.Client, opts ...relock.LockOption) locktest.Acquirer {
			return relock.NewReentrantLock("k", c, append(opts, relock.WithFair())...)
		},
		"MultiLock": func(c *relock.Client, opts ...relock.LockOption) locktest.Acquirer {
			return relock.NewMultiLock([]string{"k", "l"}, c, opts...)
		},
		"MultiLock, key by key": func(c *relock.Client, opts ...relock.LockOption) locktest.Acquirer {
			locktest.Engine(c).OneByOne.Store(true) // as on a Cluster
			return relock.NewMultiLock([]string{"k", "l"}, c, opts...)
		},
		"RWLock": func(c *relock.Client, opts ...relock.LockOption) locktest.Acquirer {
			return relock.NewRWLock("k", c, opts...)
		},
		"RWLock, fair": func(c *relock.Client, opts ...relock.LockOption) locktest.Acquirer {
			return relock.NewRWLock("k", c, append(opts, relock.WithFair())...)
		},
	}
}

// A lock that no replica has is lost in a failover, and two believe in it; with WithReplicas it is not granted.
func TestFailoverLosesWhatNoReplicaHas(t *testing.T) {
	t.Parallel()
	for name, lock := range replicatedKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := locktest.NewReplicated(t)
			c := locktest.NewTestClient(t, r.Master)
			r.Cut()
			_, err := lock(c, locktest.OneReplica).Acquire(t.Context())
			require.ErrorIs(t, err, relock.ErrReplicas)
			require.True(t, relock.IsRetryableErr(err))
			testkit.Eventually(t, 5*time.Second, func() bool {
				return r.Master.Do(t, "EXISTS", locktest.KeyOf(c, "k"), locktest.KeyOf(c, "l")) == int64(0)
			}, "is given back")

			first, err := lock(c).Acquire(t.Context())
			require.NoError(t, err)
			r.FailOver()
			second, err := lock(locktest.Sibling(t, r.Replica, c)).Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, first.Err())
			require.NoError(t, second.Err(), "the control: two believe")
			require.NoError(t, second.Unlock(t.Context()))
		})
	}
}

// A lock that a replica has survives the failover.
func TestFailoverKeepsWhatAReplicaHas(t *testing.T) {
	t.Parallel()
	for name, lock := range replicatedKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := locktest.NewReplicated(t)
			c := locktest.NewTestClient(t, r.Master)
			h, err := lock(c, locktest.OneReplica).Acquire(t.Context())
			require.NoError(t, err)
			r.FailOver()
			_, err = lock(locktest.Sibling(t, r.Replica, c)).Acquire(t.Context())
			require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
			require.NoError(t, h.Err())
		})
	}
}

// A hold that comes from a hand-over waits for its replicas too.
func TestHandOverWaitsForReplicas(t *testing.T) {
	t.Parallel()
	for _, m := range locktest.QueueModes() {
		t.Run(m.Title(), func(t *testing.T) {
			t.Parallel()
			r := locktest.NewReplicated(t)
			q := locktest.NewQueueBenchOn(t, r.Master, m, 2)
			h := q.Take(q.Clients[0])
			w := q.WaitNext(t.Context(), 0, q.Clients[1], locktest.OneReplica)
			r.Cut()
			q.Unlock(h)
			select {
			case <-w.Ended:
				require.NoError(t, w.Err)
				t.Fatal("is granted without a replica")
			case <-time.After(1500 * time.Millisecond):
			}
			r.Mend()
			next := w.Granted()
			r.FailOver()
			require.Equal(t, int64(1), r.Replica.Do(t, "EXISTS", q.Key))
			require.NoError(t, next.Err())
		})
	}
}

// A renewal that no replica has moves no belief: the hold is lost when the last confirmed lease ends.
func TestRenewalNeedsReplicas(t *testing.T) {
	t.Parallel()
	for name, lock := range replicatedKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := locktest.NewReplicated(t)
			c := locktest.NewTestClient(t, r.Master)
			lease := relock.WithWatchdog(2 * time.Second)
			h, err := lock(c, lease, relock.WithReplicas(1, 500*time.Millisecond)).Acquire(t.Context())
			require.NoError(t, err)
			other, err := relock.NewRedisLock("other", c, lease).Acquire(t.Context())
			require.NoError(t, err)
			time.Sleep(2500 * time.Millisecond)
			require.NoError(t, h.Err(), "renewals are confirmed")
			r.Cut()
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 6*time.Second), relock.ErrLockLost)
			require.NoError(t, other.Err(), "asks for no replica")
			require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
			require.NoError(t, other.Unlock(t.Context()))
		})
	}
}

// A lock whose replicas do not come delays no renewal of one that waits for others.
func TestReplicasThatDoNotComeDelayNoOtherRenewal(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	second := redistest.StartTCP(t)
	locktest.Replicate(t, second, r.Master)
	c := locktest.NewTestClient(t, r.Master)
	var both, one relock.Hold
	take := func(key string, lease time.Duration, replicas int, timeout time.Duration, hold *relock.Hold) {
		testkit.Eventually(t, 20*time.Second, func() (ok bool) {
			h, err := relock.NewRedisLock(key, c, relock.WithWatchdog(lease), relock.WithReplicas(replicas, timeout)).Acquire(t.Context())
			*hold = h
			return err == nil
		}, "the replicas follow")
	}
	take("both", 16*time.Second, 2, 4*time.Second, &both)
	take("one", 4*time.Second, 1, time.Second, &one)
	second.Pause(t)
	defer second.Resume(t)
	l := locktest.Level(both).Lease()
	l.RenewNow()
	<-time.After(6 * time.Second) // longer than the lease of the one, more than half of which the other has waited
	require.NoError(t, one.Err())
	require.NoError(t, one.Unlock(t.Context()))
	require.NoError(t, both.Unlock(t.Context()))
}

// A renewal whose WAIT is refused says why, not that replicas are missing.
func TestRenewalTellsWhyWaitFailed(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	proxy := faults.Start(t, r.Master.Network, r.Master.Address)
	var log locktest.LogBuffer
	c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, log.Option())
	h, err := relock.NewRedisLock("k", c, locktest.OneReplica).Acquire(t.Context())
	require.NoError(t, err)
	proxy.On(faults.Command("WAIT"), faults.Every, faults.ErrorLine("NOPERM this user has no permissions to run the 'wait' command"))
	l := locktest.Level(h).Lease()
	l.RenewNow()
	testkit.Eventually(t, testkit.Patience, func() bool { return strings.Contains(log.String(), "renewal failed") }, "is logged")
	require.Contains(t, log.String(), relock.ErrDenied.Error())
	require.NotContains(t, log.String(), relock.ErrReplicas.Error())
	require.NoError(t, h.Unlock(t.Context()))
}

// A renewal that finds a longer lease writes it all the same, and shortens nothing: WAIT asks for what its connection wrote.
func TestRenewalAlwaysWrites(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	written := func() int64 { return scripttest.InfoField(t, s, "persistence", "rdb_changes_since_last_save") }
	rw := func(key string, c *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
		return relock.NewRWLock(key, c, opts...)
	}
	for name, newLock := range map[string]func(string, *relock.Client, ...relock.LockOption) locktest.AnyLock{
		"plain": locktest.Kinds["RedisLock"], "reentrant": locktest.Kinds["ReentrantLock"], "read/write": rw,
	} {
		h, err := newLock(name, c, relock.WithWatchdog(time.Minute)).Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Extend(t.Context(), time.Hour))
		before := written()
		l := locktest.Level(h).Lease()
		o, _ := locktest.Engine(c).Eval(t.Context(), driver.Limits{}, l.Protocol().Renew(time.Minute))
		require.NoError(t, o.Err)
		require.Equal(t, int64(script.Ours), o.Reply)
		require.Greater(t, written(), before, name)
		require.Greater(t, locktest.Pttl(t, s, c, name), 59*time.Minute)
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// Replicas may take longer than a command may, for a grant and for renewals, over any pool.
func TestReplicasMayTakeLongerThanACommand(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"own pool", "user's pool"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := locktest.NewReplicated(t)
			locktest.Taught(t, r.Master)
			w := locktest.NewWitness(t)
			opts := []relock.ClientOption{relock.WithCommandTimeout(600 * time.Millisecond), relock.WithObserver(w.Observer())}
			c := locktest.NewTestClient(t, r.Master, opts...)
			if name == "user's pool" {
				c = newPoolClient(t, r.Master, opts...)
			}
			r.Replica.Pause(t)
			resumed := time.AfterFunc(1200*time.Millisecond, func() { r.Replica.Resume(t) })
			defer resumed.Stop()
			start := time.Now()
			h, err := relock.NewRedisLock("k", c, relock.WithWatchdog(10*time.Second), relock.WithReplicas(1, 2500*time.Millisecond)).Acquire(t.Context())
			require.NoError(t, err)
			require.Greater(t, time.Since(start), time.Second)
			for len(w.Renewals()) < 2 { // the replica is away as each begins
				r.Replica.Pause(t)
				time.Sleep(1200 * time.Millisecond)
				r.Replica.Resume(t)
				time.Sleep(100 * time.Millisecond)
			}
			for _, e := range w.Renewals() {
				require.NoError(t, e.Err)
			}
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// newPoolClient is a client over a pool of the user's.
func newPoolClient(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }}
	c, err := relock.NewClientPool(pool, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		require.NoError(t, pool.Close())
	})
	return c
}

// The keys of a MultiLock are lengthened one after another where each waits for replicas: a small pool is enough.
func TestExtendOfManyKeysWithReplicas(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	c := locktest.NewTestClient(t, r.Master, relock.WithMaxActive(1))
	h, err := relock.NewMultiLock([]string{"a", "b", "c", "d"}, c, locktest.OneReplica).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Extend(t.Context(), time.Minute))
	r.Cut()
	start := time.Now()
	require.ErrorIs(t, h.Extend(t.Context(), time.Hour), relock.ErrReplicas)
	require.Less(t, time.Since(start), 3*time.Second, "the first key that too few replicas have is the last one that is tried")
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(t.Context()))
}

// Extend and re-entry wait for replicas.
func TestExtendAndReentryWaitForReplicas(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	c := locktest.NewTestClient(t, r.Master)
	l := relock.NewReentrantLock("k", c, relock.WithOwner("me"), locktest.OneReplica)
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, h.Extend(t.Context(), time.Minute))
	until := h.ValidUntil()
	r.Cut()
	require.ErrorIs(t, h.Extend(t.Context(), time.Hour), relock.ErrReplicas)
	require.Equal(t, until, h.ValidUntil())
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrReplicas)
	require.Equal(t, 2, l.HoldCount(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
}

// One who reads and may not write for want of replicas lets others go on reading.
func TestUpgradeWaitsForReplicas(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	c := locktest.NewTestClient(t, r.Master)
	l := relock.NewRWLock("k", c, relock.WithOwner("me"), locktest.OneReplica)
	require.NoError(t, l.RLock(t.Context()))
	require.NoError(t, l.RLock(t.Context()))
	r.Cut()
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrReplicas)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
	other := relock.NewRWLock("k", locktest.Sibling(t, r.Master, c), relock.WithOwner("other"), relock.WithBlockTimeout(10*time.Second))
	require.NoError(t, other.RLock(t.Context()))
	require.NoError(t, other.RUnlock(t.Context()))
	require.NoError(t, l.RUnlock(t.Context()))
	require.NoError(t, l.RUnlock(t.Context()))
}

// A master that becomes a replica while a call waits for replicas ends that wait: the call goes on at the new master.
func TestMasterIsDemotedDuringTheWait(t *testing.T) {
	t.Parallel()
	v, master, replica := newPair(t)
	replica.Do(t, "REPLICAOF", "NO", "ONE")
	c, err := relock.NewClient("tcp", v.address, "")
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a second Close does nothing
	lock := relock.NewRedisLock("k", c, relock.WithBlock(), relock.WithReplicas(1, 2*time.Second))
	waits := testkit.Async(t, func() error { return lock.Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return infoOf(t, master, "clients", "blocked_clients") == "1" }, "no WAIT")
	v.current.Store(replica)
	locktest.Replicate(t, master, replica)
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
	require.Equal(t, int64(1), replica.Do(t, "EXISTS", locktest.KeyOf(c, "k")))
	require.NoError(t, lock.Unlock(t.Context()))
}

// What has become a replica before it is asked for its own says so in other words. What it took is given back.
func TestMasterIsDemotedBeforeTheWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Command("WAIT"), 1, faults.ErrorLine("ERR WAIT cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated."))
	c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	err := relock.NewRedisLock("k", c, relock.WithReplicas(1, time.Second)).Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrReplicas)
	require.True(t, relock.IsRetryableErr(err))
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "k")) == int64(0) }, "given back")
}

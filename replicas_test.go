package relock

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// replicated is a master and its replica.
type replicated struct {
	testing.TB
	master, replica *redistest.Server
}

func newReplicated(t testing.TB) *replicated {
	r := &replicated{TB: t, master: redistest.StartTCP(t, "--repl-diskless-sync-delay", "0"), replica: redistest.StartTCP(t)}
	r.mend()
	return r
}

// cut ends the replication: the replica keeps what it has.
func (r *replicated) cut() { r.replica.Do(r, "REPLICAOF", "NO", "ONE") }

// mend begins it, and waits until the replica confirms what the master writes.
func (r *replicated) mend() {
	replicate(r, r.replica, r.master)
	conn := r.master.Dial(r)
	defer conn.Close() //nolint:errcheck // nothing is pending
	for range 2 {      // the first may have come with the copy of all data; what follows it begins up to a second later
		testkit.Eventually(r, 20*time.Second, func() bool {
			_, err := conn.Do("SET", "probe", 1, "PX", 60_000)
			require.NoError(r, err)
			acks, err := conn.Do("WAIT", 1, 5000)
			require.NoError(r, err)
			return acks == int64(1)
		}, "the replica has no link")
	}
}

// failOver makes the replica the master.
func (r *replicated) failOver() {
	r.master.Kill(r)
	r.replica.Do(r, "REPLICAOF", "NO", "ONE")
}

// replicatedKinds are the ways to take a lock.
func replicatedKinds() map[string]func(c *Client, opts ...LockOption) acquirer {
	return map[string]func(c *Client, opts ...LockOption) acquirer{
		"RedisLock":       func(c *Client, opts ...LockOption) acquirer { return NewRedisLock("k", c, opts...) },
		"RedisLock, fair": func(c *Client, opts ...LockOption) acquirer { return NewRedisLock("k", c, append(opts, WithFair())...) },
		"ReentrantLock":   func(c *Client, opts ...LockOption) acquirer { return NewReentrantLock("k", c, opts...) },
		"ReentrantLock, fair": func(c *Client, opts ...LockOption) acquirer {
			return NewReentrantLock("k", c, append(opts, WithFair())...)
		},
		"MultiLock": func(c *Client, opts ...LockOption) acquirer { return NewMultiLock([]string{"k", "l"}, c, opts...) },
		"MultiLock, key by key": func(c *Client, opts ...LockOption) acquirer {
			c.engine.OneByOne.Store(true) // as on a Cluster
			return NewMultiLock([]string{"k", "l"}, c, opts...)
		},
		"RWLock":       func(c *Client, opts ...LockOption) acquirer { return NewRWLock("k", c, opts...) },
		"RWLock, fair": func(c *Client, opts ...LockOption) acquirer { return NewRWLock("k", c, append(opts, WithFair())...) },
	}
}

var oneReplica = WithReplicas(1, time.Second)

// A lock that no replica has is lost in a failover, and two believe in it; with WithReplicas it is not granted.
func TestFailoverLosesWhatNoReplicaHas(t *testing.T) {
	t.Parallel()
	for name, lock := range replicatedKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReplicated(t)
			c := newTestClient(t, r.master)
			r.cut()
			_, err := lock(c, oneReplica).Acquire(t.Context())
			require.ErrorIs(t, err, ErrReplicas)
			require.True(t, IsRetryableErr(err))
			testkit.Eventually(t, 5*time.Second, func() bool { return r.master.Do(t, "EXISTS", keyOf(c, "k"), keyOf(c, "l")) == int64(0) }, "is given back")

			first, err := lock(c).Acquire(t.Context())
			require.NoError(t, err)
			r.failOver()
			second, err := lock(sibling(t, r.replica, c)).Acquire(t.Context())
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
			r := newReplicated(t)
			c := newTestClient(t, r.master)
			h, err := lock(c, oneReplica).Acquire(t.Context())
			require.NoError(t, err)
			r.failOver()
			_, err = lock(sibling(t, r.replica, c)).Acquire(t.Context())
			require.ErrorIs(t, err, ErrLockAcquiredByOthers)
			require.NoError(t, h.Err())
		})
	}
}

// A hold that comes from a hand-over waits for its replicas too.
func TestHandOverWaitsForReplicas(t *testing.T) {
	t.Parallel()
	for _, m := range queueModes() {
		t.Run(m.name(), func(t *testing.T) {
			t.Parallel()
			r := newReplicated(t)
			q := newQueueBenchOn(t, r.master, m, 2)
			h := q.take(q.clients[0])
			w := q.waitNext(t.Context(), 0, q.clients[1], oneReplica)
			r.cut()
			q.unlock(h)
			select {
			case <-w.ended:
				require.NoError(t, w.err)
				t.Fatal("is granted without a replica")
			case <-time.After(1500 * time.Millisecond):
			}
			r.mend()
			next := w.granted()
			r.failOver()
			require.Equal(t, int64(1), r.replica.Do(t, "EXISTS", q.key))
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
			r := newReplicated(t)
			c := newTestClient(t, r.master)
			lease := WithWatchdog(2 * time.Second)
			h, err := lock(c, lease, WithReplicas(1, 500*time.Millisecond)).Acquire(t.Context())
			require.NoError(t, err)
			other, err := NewRedisLock("other", c, lease).Acquire(t.Context())
			require.NoError(t, err)
			time.Sleep(2500 * time.Millisecond)
			require.NoError(t, h.Err(), "renewals are confirmed")
			r.cut()
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 6*time.Second), ErrLockLost)
			require.NoError(t, other.Err(), "asks for no replica")
			require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
			require.NoError(t, other.Unlock(t.Context()))
		})
	}
}

// A lock whose replicas do not come delays no renewal of one that waits for others.
func TestReplicasThatDoNotComeDelayNoOtherRenewal(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	second := redistest.StartTCP(t)
	replicate(t, second, r.master)
	c := newTestClient(t, r.master)
	var both, one Hold
	take := func(key string, lease time.Duration, replicas int, timeout time.Duration, hold *Hold) {
		testkit.Eventually(t, 20*time.Second, func() (ok bool) {
			h, err := NewRedisLock(key, c, WithWatchdog(lease), WithReplicas(replicas, timeout)).Acquire(t.Context())
			*hold = h
			return err == nil
		}, "the replicas follow")
	}
	take("both", 16*time.Second, 2, 4*time.Second, &both)
	take("one", 4*time.Second, 1, time.Second, &one)
	second.Pause(t)
	defer second.Resume(t)
	l := both.(hold).level.Lease()
	l.RenewNow()
	<-time.After(6 * time.Second) // longer than the lease of the one, more than half of which the other has waited
	require.NoError(t, one.Err())
	require.NoError(t, one.Unlock(t.Context()))
	require.NoError(t, both.Unlock(t.Context()))
}

// A renewal whose WAIT is refused says why, not that replicas are missing.
func TestRenewalTellsWhyWaitFailed(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	proxy := faults.Start(t, r.master.Network, r.master.Address)
	var log logBuffer
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, log.option())
	h, err := NewRedisLock("k", c, oneReplica).Acquire(t.Context())
	require.NoError(t, err)
	proxy.On(faults.Command("WAIT"), faults.Every, faults.ErrorLine("NOPERM this user has no permissions to run the 'wait' command"))
	l := h.(hold).level.Lease()
	l.RenewNow()
	testkit.Eventually(t, testkit.Patience, func() bool { return strings.Contains(log.String(), "renewal failed") }, "is logged")
	require.Contains(t, log.String(), ErrDenied.Error())
	require.NotContains(t, log.String(), ErrReplicas.Error())
	require.NoError(t, h.Unlock(t.Context()))
}

// A renewal that finds a longer lease writes it all the same, and shortens nothing: WAIT asks for what its connection wrote.
func TestRenewalAlwaysWrites(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	written := func() int64 { return scripttest.InfoField(t, s, "persistence", "rdb_changes_since_last_save") }
	rw := func(key string, c *Client, opts ...LockOption) anyLock { return NewRWLock(key, c, opts...) }
	for name, newLock := range map[string]func(string, *Client, ...LockOption) anyLock{
		"plain": kinds["RedisLock"], "reentrant": kinds["ReentrantLock"], "read/write": rw,
	} {
		h, err := newLock(name, c, WithWatchdog(time.Minute)).Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Extend(t.Context(), time.Hour))
		before := written()
		l := h.(hold).level.Lease()
		o, _ := c.engine.Eval(t.Context(), driver.Limits{}, l.Protocol().Renew(time.Minute))
		require.NoError(t, o.Err)
		require.Equal(t, int64(script.Ours), o.Reply)
		require.Greater(t, written(), before, name)
		require.Greater(t, pttl(t, s, c, name), 59*time.Minute)
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// Replicas may take longer than a command may, for a grant and for renewals, over any pool.
func TestReplicasMayTakeLongerThanACommand(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"own pool", "user's pool"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReplicated(t)
			taught(t, r.master)
			w := newWitness(t)
			opts := []ClientOption{WithCommandTimeout(600 * time.Millisecond), WithObserver(w.observer())}
			c := newTestClient(t, r.master, opts...)
			if name == "user's pool" {
				c = newPoolClient(t, r.master, opts...)
			}
			r.replica.Pause(t)
			resumed := time.AfterFunc(1200*time.Millisecond, func() { r.replica.Resume(t) })
			defer resumed.Stop()
			start := time.Now()
			h, err := NewRedisLock("k", c, WithWatchdog(10*time.Second), WithReplicas(1, 2500*time.Millisecond)).Acquire(t.Context())
			require.NoError(t, err)
			require.Greater(t, time.Since(start), time.Second)
			for len(w.renewals()) < 2 { // the replica is away as each begins
				r.replica.Pause(t)
				time.Sleep(1200 * time.Millisecond)
				r.replica.Resume(t)
				time.Sleep(100 * time.Millisecond)
			}
			for _, e := range w.renewals() {
				require.NoError(t, e.Err)
			}
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// newPoolClient is a client over a pool of the user's.
func newPoolClient(t testing.TB, s *redistest.Server, opts ...ClientOption) *Client {
	t.Helper()
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }}
	c, err := NewClientPool(pool, opts...)
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
	r := newReplicated(t)
	c := newTestClient(t, r.master, WithMaxActive(1))
	h, err := NewMultiLock([]string{"a", "b", "c", "d"}, c, oneReplica).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Extend(t.Context(), time.Minute))
	r.cut()
	start := time.Now()
	require.ErrorIs(t, h.Extend(t.Context(), time.Hour), ErrReplicas)
	require.Less(t, time.Since(start), 3*time.Second, "the first key that too few replicas have is the last one that is tried")
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(t.Context()))
}

// Extend and re-entry wait for replicas.
func TestExtendAndReentryWaitForReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	c := newTestClient(t, r.master)
	l := owned("me", NewReentrantLock("k", c, oneReplica))
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, h.Extend(t.Context(), time.Minute))
	until := h.ValidUntil()
	r.cut()
	require.ErrorIs(t, h.Extend(t.Context(), time.Hour), ErrReplicas)
	require.Equal(t, until, h.ValidUntil())
	require.ErrorIs(t, l.Lock(t.Context()), ErrReplicas)
	require.Equal(t, 2, l.HoldCount(as(t, "me")))
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
}

// One who reads and may not write for want of replicas lets others go on reading.
func TestUpgradeWaitsForReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	c := newTestClient(t, r.master)
	l := owned("me", NewRWLock("k", c, oneReplica))
	require.NoError(t, l.RLock(t.Context()))
	require.NoError(t, l.RLock(t.Context()))
	r.cut()
	require.ErrorIs(t, l.Lock(t.Context()), ErrReplicas)
	require.ErrorIs(t, l.Unlock(t.Context()), ErrNotHeld)
	other := owned("other", NewRWLock("k", sibling(t, r.master, c), WithBlockTimeout(10*time.Second)))
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
	c, err := NewClient("tcp", v.address, "")
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a second Close does nothing
	lock := NewRedisLock("k", c, WithBlock(), WithReplicas(1, 2*time.Second))
	waits := testkit.Async(t, func() error { return lock.Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return infoOf(t, master, "clients", "blocked_clients") == "1" }, "no WAIT")
	v.current.Store(replica)
	replicate(t, master, replica)
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
	require.Equal(t, int64(1), replica.Do(t, "EXISTS", keyOf(c, "k")))
	require.NoError(t, lock.Unlock(t.Context()))
}

// What has become a replica before it is asked for its own says so in other words. What it took is given back.
func TestMasterIsDemotedBeforeTheWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Command("WAIT"), 1, faults.ErrorLine("ERR WAIT cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated."))
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	err := NewRedisLock("k", c, WithReplicas(1, time.Second)).Lock(t.Context())
	require.ErrorIs(t, err, ErrReplicas)
	require.True(t, IsRetryableErr(err))
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "EXISTS", keyOf(c, "k")) == int64(0) }, "given back")
}

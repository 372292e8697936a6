package matrix_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// pair is a master and its replica, and an address that forwards new
// connections to whichever server is current, as a virtual IP or a DNS name
// does. Old connections stay where they are.
type pair struct {
	testing.TB
	master, replica *redistest.Server
	front           *redistest.Server
	current         atomic.Pointer[redistest.Server]
}

func newPair(t testing.TB) *pair {
	r := locktest.NewReplicated(t)
	p := &pair{TB: t, master: r.Master, replica: r.Replica}
	p.current.Store(r.Master)
	p.front = testkit.Serve(t, testkit.Listen(t), func(client net.Conn) { testkit.Forward(client, p.current.Load()) })
	return p
}

// client returns one of the address.
func (p *pair) client() *relock.Client {
	return locktest.NewTestClient(p, p.front)
}

// failOver makes the replica the master when it has the keys. The old master
// becomes its replica.
func (p *pair) failOver(keys ...string) {
	p.promote(keys...)
	locktest.Replicate(p, p.master, p.replica)
}

func (p *pair) promote(keys ...string) {
	for _, key := range keys {
		testkit.Eventually(p, 10*time.Second, func() bool { return p.replica.Do(p, "EXISTS", key) == int64(1) }, "the replica is behind")
	}
	p.replica.Do(p, "REPLICAOF", "NO", "ONE")
	p.current.Store(p.replica)
}

// forget is failOver with a master that has lost a key, and that cannot reach
// the new one.
func (p *pair) forget(key string) {
	p.promote(key)
	p.master.Do(p, "DEL", key)
	demote(p, p.master)
}

// demote makes a server a replica whose master cannot be reached.
func demote(t testing.TB, s *redistest.Server) {
	t.Helper()
	s.Do(t, "REPLICAOF", "127.0.0.1", redistest.FreePort(t))
}

// After a planned failover behind one address the connections lead to the old
// master, which answers READONLY. A hold goes over to new ones: the new master
// has the key. So does a blocking call.
func TestHoldSurvivesFailoverBehindOneAddress(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second // of which a command has a third: a machine that stalls must not cost a connection
	p := newPair(t)
	c := p.client()
	h, err := relock.NewRedisLock("lock", c, relock.WithWatchdog(lease)).Acquire(t.Context())
	require.NoError(t, err)
	locktest.AwaitRenewal(t, h, lease) // the watchdog has a connection
	p.failOver(locktest.KeyOf(c, "lock"))
	moved := time.Now()
	testkit.Eventually(t, 3*lease, func() bool {
		require.NoError(t, h.Err(), "lost, though the new master has the key")
		return h.ValidUntil().After(moved.Add(2 * lease))
	}, "not renewed")
	require.NoError(t, relock.NewRedisLock("another", c).TryLock(t.Context()), "the watchdog has seen it: no call need meet the old master")
	require.NoError(t, h.Unlock(t.Context()))
}

func TestBlockingLockFollowsFailoverBehindOneAddress(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	lock := relock.NewRedisLock("lock", p.client(), relock.WithBlockTimeout(10*time.Second))
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
				c := p.client()
				h, err := lock(c, relock.WithWatchdog(time.Minute)).Acquire(t.Context())
				require.NoError(t, err)
				p.forget(locktest.KeyOf(c, "k"))
				require.NoError(t, do(t.Context(), h))
			}})
		}
	}
	locktest.RunTogether(t, cells)
}

// If the new master does not have the key either, the hold is lost, and Unlock
// says so.
func TestNeitherMasterHasTheHold(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	c := p.client()
	h, err := relock.NewRedisLock("k", c, relock.WithWatchdog(time.Minute)).Acquire(t.Context())
	require.NoError(t, err)
	p.forget(locktest.KeyOf(c, "k"))
	p.replica.Do(t, "DEL", locktest.KeyOf(c, "k"))
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
}

// A master that becomes a replica while a call waits for replicas ends that
// wait: the call goes on at the new master.
func TestMasterIsDemotedDuringTheWait(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.replica.Do(t, "REPLICAOF", "NO", "ONE")
	c := p.client()
	lock := relock.NewRedisLock("k", c, relock.WithBlock(), relock.WithReplicas(1, 2*time.Second))
	waits := testkit.Async(t, func() error { return lock.Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return scripttest.InfoField(t, p.master, "clients", "blocked_clients") == 1 }, "no WAIT")
	p.failOver()
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
	require.Equal(t, int64(1), p.replica.Do(t, "EXISTS", locktest.KeyOf(c, "k")))
	require.NoError(t, lock.Unlock(t.Context()))
}

// That a replica does not have a hold says nothing: no script says so, nor to a
// user who may do no more than the least.
func TestScriptsOnAReplica(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	b := scripttest.NewBench(t, s)
	locktest.ReadmePrivileges(t).Allow(t, s, "allkeys")
	requests := map[string]script.Call{
		"release":            {Script: script.Release, Args: []any{"a", 0, ""}},
		"renew":              {Script: script.Renew, Args: []any{"a", 1000}},
		"reentrant release":  {Script: script.ReentrantRelease, Args: []any{"a", "h", 0, 2, 0}},
		"reentrant renew":    {Script: script.ReentrantRenew, Args: []any{"h", 1000}},
		"reentrant enter":    {Script: script.ReentrantEnter, Args: []any{"a", "h", 2, 2, 1000}},
		"reentrant transfer": {Script: script.ReentrantTransfer, Args: []any{"h", "a", "i", "b", 1000, "info"}},
		"rw release":         {Script: script.RWRelease, Args: []any{"h", 0, 0, 2}},
		"rw renew":           {Script: script.RWRenew, Args: []any{"h", 1000}},
		"rw enter":           {Script: script.RWEnter, Args: []any{"h", 2, 0, 2, 1000}},
		"acquire":            scripttest.AcquireOf("a", "", time.Second),
		"reentrant acquire":  scripttest.ReentrantAcquireOf("a", "h", time.Second),
		"force":              {Script: script.Force, Args: []any{"reason"}},
		"rw force":           {Script: script.RWForce, Args: []any{"reason"}},
	}
	for content, put := range map[string]func(){
		"nothing":       func() {},
		"a reservation": func() { b.Do("SET", b.Key, scripttest.WaitNamed("c1", 1, "rf").Reserved(), "PX", 60_000) },
		"another type":  func() { b.Do("LPUSH", b.Key, "x"); b.Do("PEXPIRE", b.Key, 60_000) },
	} {
		s.Do(t, "REPLICAOF", "NO", "ONE")
		b.Do("DEL", b.Key)
		put()
		demote(t, s)
		for name, r := range requests {
			_, err := b.Try(r)
			require.ErrorContains(t, err, "READONLY", "%s, %s", name, content)
		}
	}
	_, err := b.Conn.Do("AUTH", "app", "password")
	require.NoError(t, err)
	for _, name := range []string{"release", "renew", "reentrant release", "reentrant renew"} {
		_, err := b.Try(requests[name])
		require.ErrorContains(t, err, "READONLY", name)
	}
}

// What a replica knows of a lock that others have, or that is to be forced
// open, says nothing either.
func TestScriptsOnAReplicaThatHasTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	b := scripttest.NewReadWrite(t, s)
	plain, writes := scripttest.WaitNamed("c1", 1, "pf"), scripttest.RWWaitNamed("c1", 1, "wf")
	for name, tt := range map[string]struct {
		ready  func()
		script script.Call
	}{
		"claim":    {func() { b.Do("SET", b.Key, "relock/1|f|other|", "PX", 60_000); b.Line(time.Minute, plain) }, plain.Claim()},
		"rw claim": {func() { b.Code(scripttest.RWWaitNamed("c2", 1, "wf").Try()); b.Line(time.Minute, writes.Wait) }, writes.Claim()},
		"rw force": {func() { b.Code(writes.Try()) }, script.Call{Script: script.RWForce, Args: []any{"reason"}}},
	} {
		s.Do(t, "REPLICAOF", "NO", "ONE")
		s.Do(t, "FLUSHALL")
		tt.ready()
		demote(t, s)
		_, err := b.Send(tt.script)
		require.ErrorContains(t, err, "READONLY", name)
	}
}

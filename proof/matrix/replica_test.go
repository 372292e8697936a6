package matrix_test

import (
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

// demote makes a server a replica whose master cannot be reached.
func demote(t testing.TB, s *redistest.Server) {
	t.Helper()
	s.Do(t, "REPLICAOF", "127.0.0.1", redistest.FreePort(t))
}

// That a replica does not have a hold says nothing: no script says so.
func TestScriptsOnAReplica(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	b := scripttest.NewBench(t, s)
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
	contents := map[string]func(){
		"nothing":       func() {},
		"a reservation": func() { b.Do("SET", b.Key, scripttest.WaitNamed("c1", 1, "rf").Reserved(), "PX", 60_000) },
		"another type":  func() { b.Do("LPUSH", b.Key, "x"); b.Do("PEXPIRE", b.Key, 60_000) },
	}
	for content, put := range contents {
		s.Do(t, "REPLICAOF", "NO", "ONE")
		b.Do("DEL", b.Key)
		put()
		demote(t, s)
		for name, r := range requests {
			_, err := b.Try(r)
			require.ErrorContains(t, err, "READONLY", "%s, %s", name, content)
		}
	}
}

// Nor to a user who may do no more than the least.
func TestScriptsOnAReplicaPermission(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	b := scripttest.NewBench(t, s)
	locktest.ReadmePrivileges(t).Allow(t, s, "allkeys")
	_, err := b.Conn.Do("AUTH", "app", "password")
	require.NoError(t, err)
	demote(t, s)
	for name, r := range map[string]script.Call{
		"release":           {Script: script.Release, Args: []any{"a", 0, ""}},
		"renew":             {Script: script.Renew, Args: []any{"a", 1000}},
		"reentrant release": {Script: script.ReentrantRelease, Args: []any{"a", "h", 0, 2, 0}},
		"reentrant renew":   {Script: script.ReentrantRenew, Args: []any{"h", 1000}},
	} {
		_, err := b.Try(r)
		require.ErrorContains(t, err, "READONLY", name)
	}
}

// What a replica knows of a lock that others have, or that is to be forced open, says nothing either.
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

// startForgetfulPair is startPair with a master that has lost a key at the failover, and that cannot reach the new one.
func startForgetfulPair(t testing.TB) (v *virtualAddress, failover func(key string)) {
	v, master, replica := newPair(t)
	return v, func(key string) {
		testkit.Eventually(t, 10*time.Second, func() bool { return replica.Do(t, "EXISTS", key) == int64(1) }, "the replica is behind")
		replica.Do(t, "REPLICAOF", "NO", "ONE")
		v.current.Store(replica)
		master.Do(t, "DEL", key)
		demote(t, master)
	}
}

// A connection that leads to the old master after a failover, where the key has gone, makes no hold lost: the new master has it.
func TestOldMasterHasForgottenTheHold(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(*relock.Client) locktest.Acquirer{
		"plain": func(c *relock.Client) locktest.Acquirer {
			return relock.NewRedisLock("lock", c, relock.WithWatchdog(time.Minute))
		},
		"reentrant": func(c *relock.Client) locktest.Acquirer {
			return relock.NewReentrantLock("lock", c, relock.WithWatchdog(time.Minute))
		},
		"read/write": func(c *relock.Client) locktest.Acquirer {
			return relock.NewRWLock("lock", c, relock.WithWatchdog(time.Minute))
		},
	}
	calls := map[string]func(relock.Hold) error{
		"extend": func(h relock.Hold) error {
			if err := h.Extend(t.Context(), 2*time.Minute); !relock.IsRetryableErr(err) {
				return err
			}
			return h.Extend(t.Context(), 2*time.Minute) // over another connection
		},
		"unlock": func(h relock.Hold) error { return h.Unlock(t.Context()) },
	}
	for kind, lock := range kinds {
		for call, do := range calls {
			t.Run(kind+"/"+call, func(t *testing.T) {
				t.Parallel()
				v, fail := startForgetfulPair(t)
				c, err := relock.NewClient("tcp", v.address, "")
				require.NoError(t, err)
				defer c.Close() //nolint:errcheck // a second Close does nothing
				h, err := lock(c).Acquire(t.Context())
				require.NoError(t, err)
				fail(locktest.KeyOf(c, "lock"))
				require.NoError(t, do(h))
			})
		}
	}
}

// When the new master does not have it either, it is lost, and Unlock says so.
func TestNeitherMasterHasTheHold(t *testing.T) {
	t.Parallel()
	v, fail := startForgetfulPair(t)
	c, err := relock.NewClient("tcp", v.address, "")
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a second Close does nothing
	h, err := relock.NewRedisLock("lock", c, relock.WithWatchdog(time.Minute)).Acquire(t.Context())
	require.NoError(t, err)
	fail(locktest.KeyOf(c, "lock"))
	v.current.Load().Do(t, "DEL", locktest.KeyOf(c, "lock"))
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
}

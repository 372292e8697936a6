package goredis_test

import (
	"context"
	"net"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// Holds and waiters go on at the new master, whether the old one is killed or
// hangs. A call that begins meanwhile gets its lock soon after the new master
// takes writes. The client of go-redis still works.
func TestFailover(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*redistest.Server, testing.TB){
		"killed": (*redistest.Server).Kill, "hangs": (*redistest.Server).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSentinels(t)
			rdb := s.client(t)
			holder, waiter := newClientOnly(t, rdb), newClientOnly(t, rdb)
			watched := relock.WithWatchdog(15 * time.Second) // longer than the failover
			held, err := relock.NewRedisLock("held", holder, watched).Acquire(t.Context())
			require.NoError(t, err)
			granted := acquire(t, waiter, "held", watched)
			s.awaitReplicated(t, "relock:{held}", "relock:{held}:q")

			fail(s.master, t)
			fresh := acquire(t, waiter, "fresh", watched)
			accepted := s.awaitPromoted(t)
			s.awaitKnown(t)
			known := time.Now()
			require.NoError(t, testkit.ResultWithin(t, fresh, 10*time.Second))
			t.Logf("first grant %v after the first accepted write, %v after all Sentinels knew the master",
				time.Since(accepted).Round(time.Millisecond), time.Since(known).Round(time.Millisecond))

			require.NoError(t, held.Err())
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, testkit.ResultWithin(t, granted, 10*time.Second))
			require.NoError(t, rdb.Ping(t.Context()).Err())
		})
	}
}

// acquire takes a lock, and waits for it. The hold ends with the client.
func acquire(t testing.TB, c *relock.Client, name string, opts ...relock.LockOption) <-chan error {
	ctx := t.Context()
	return testkit.Async(t, func() error {
		_, err := relock.NewRedisLock(name, c, append(opts, relock.WithBlock())...).Acquire(ctx)
		return err
	})
}

// awaitReplicated waits until the replica has the keys.
func (s *sentinels) awaitReplicated(t testing.TB, keys ...string) {
	for _, key := range keys {
		testkit.Eventually(t, 10*time.Second, func() bool { return s.replica.Do(t, "EXISTS", key) == int64(1) }, key+" is not at the replica")
	}
}

// awaitPromoted waits until the replica takes writes, and returns the time of
// the first one.
func (s *sentinels) awaitPromoted(t testing.TB) time.Time {
	testkit.Eventually(t, 30*time.Second, func() bool {
		_, err := s.replica.Try(t, "SET", "probe", 1)
		return err == nil
	}, "no failover")
	return time.Now()
}

// awaitKnown waits until all Sentinels name the replica as the master.
func (s *sentinels) awaitKnown(t testing.TB) {
	for _, address := range s.addresses {
		conn, err := redigo.Dial("tcp", address)
		require.NoError(t, err)
		testkit.Eventually(t, 30*time.Second, func() bool {
			master, err := redigo.Strings(conn.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName))
			require.NoError(t, err)
			return net.JoinHostPort(master[0], master[1]) == s.replica.Address
		}, "a Sentinel does not know the new master")
		require.NoError(t, conn.Close())
	}
}

// A master that is demoted without a failure is noticed by its refusal.
func TestSwitch(t *testing.T) {
	t.Parallel()
	s := startSentinels(t)
	c := newClientOnly(t, s.client(t))
	noWork := func(context.Context) error { return nil }
	lock := relock.NewRedisLock("name", c, relock.WithBlock())
	require.NoError(t, lock.Do(t.Context(), noWork))
	conn, err := redigo.Dial("tcp", s.addresses[0])
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // nothing is pending
	_, err = conn.Do("SENTINEL", "FAILOVER", masterName)
	require.NoError(t, err)
	s.awaitPromoted(t)
	require.NoError(t, lock.Do(t.Context(), noWork))
	calls := string(s.replica.Do(t, "INFO", "commandstats").([]byte))
	require.NotZero(t, testkit.CallsIn(t, calls, "set"))
}

package goredis_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// downAfter is when a master counts as down. A machine that stalls must not
// cause a failover.
const downAfter = time.Second

// failoverClient returns a client of go-redis. It is closed when the test ends.
func failoverClient(t testing.TB, s *redistest.Sentinels, change ...func(*redis.FailoverOptions)) *redis.Client {
	return changed(t, redis.NewFailoverClient, &redis.FailoverOptions{MasterName: redistest.SentinelName, SentinelAddrs: s.Addresses()}, change)
}

// clientsOf is clientsOver for Sentinels.
func clientsOf(t testing.TB, s *redistest.Sentinels) func() *relock.Client {
	return clientsOver(t, func() redis.UniversalClient { return failoverClient(t, s) })
}

// Masters fail under load, and sentinels replace them. Every waiter gets its
// turn at the new master. With WithReplicas no two holds are valid together.
func TestHandOffsWhileMastersDie(t *testing.T) {
	t.Parallel()
	failovers := 2
	if locktest.FullLength() {
		failovers = 20
	}
	for name, end := range locktest.MasterEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinels(t, downAfter)
			l := locktest.NewFailoverLoad(t, s, [2]string{"unfair", "fair"}, clientsOf(t, s), relock.WithReplicas(1, 500*time.Millisecond))
			for range failovers {
				l.FailOver(end)
			}
			l.Stop()
			l.RequireNoOverlap()
		})
	}
}

// The control: a lock that no replica has is lost with its master, and two
// holds are valid together. With WithReplicas it is not granted.
func TestFailoverWithoutReplicationOverlaps(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, downAfter)
	locktest.RequireOverlap(t, s, "k", clientsOf(t, s), (*redistest.Server).Kill)
}

// Holds and waiters go on at the new master, whether the old one is killed or
// hangs. A call that begins meanwhile gets its lock soon after the new master
// takes writes. The client of go-redis still works.
func TestFailover(t *testing.T) {
	t.Parallel()
	for name, fail := range locktest.MasterEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinels(t, downAfter)
			rdb := failoverClient(t, s)
			holder, waiter := newClientOnly(t, rdb), newClientOnly(t, rdb)
			watched := relock.WithWatchdog(time.Minute) // longer than the failover: sentinels vote again after 4 s
			held, err := relock.NewRedisLock("held", holder, watched).Acquire(t.Context())
			require.NoError(t, err)
			granted := acquire(t, waiter, "held", watched)
			awaitReplicated(t, s, "relock:{held}", "relock:{held}:q")

			master := s.Agreed(t)
			fail(master, t)
			fresh := acquire(t, waiter, "fresh", watched)
			s.AwaitSuccessor(t, master)
			known := time.Now()
			require.NoError(t, testkit.ResultWithin(t, fresh, 10*time.Second))
			t.Logf("first grant %v after all sentinels knew the master", time.Since(known).Round(time.Millisecond))

			require.NoError(t, held.Err())
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, testkit.ResultWithin(t, granted, testkit.Patience))
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

// awaitReplicated waits until all replicas have the keys.
func awaitReplicated(t testing.TB, s *redistest.Sentinels, keys ...string) {
	for _, key := range keys {
		testkit.Eventually(t, testkit.Patience, func() bool {
			return !slices.ContainsFunc(s.Replicas(s.Agreed(t)), func(one *redistest.Server) bool { return one.Do(t, "EXISTS", key) == int64(0) })
		}, key+" is not at the replicas")
	}
}

// A master that is demoted without a failure is noticed by its refusal.
func TestSwitch(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, 20*time.Second) // a machine that stalls is no failure
	c := newClientOnly(t, failoverClient(t, s))
	lock := relock.NewRedisLock("name", c, relock.WithBlock())
	require.NoError(t, lock.Do(t.Context(), func(context.Context) error { return nil }))
	old := s.Agreed(t)
	s.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", redistest.SentinelName)
	s.AwaitSuccessor(t, old)
	next := s.Return(t, old)
	hold, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, next.Do(t, "EXISTS", "relock:{name}"))
	require.NoError(t, hold.Unlock(t.Context()))
}

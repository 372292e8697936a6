package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/goredis"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// downAfter is when a master counts as down. A machine that stalls must not
// cause a failover.
const downAfter = time.Second

// failoverOptions returns the options of a client of go-redis.
func failoverOptions(s *redistest.Sentinels, change ...func(*redis.FailoverOptions)) *redis.FailoverOptions {
	o := &redis.FailoverOptions{MasterName: redistest.SentinelName, SentinelAddrs: s.Addresses()}
	for _, f := range change {
		f(o)
	}
	return o
}

// newClientOfSentinels returns a client with the options of go-redis. It is
// closed when the test ends.
func newClientOfSentinels(t testing.TB, o *redis.FailoverOptions, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c, err := goredis.NewClientSentinel(o, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// clientsOf returns a function that makes clients with the same prefix.
func clientsOf(t testing.TB, s *redistest.Sentinels) func() *relock.Client {
	prefix := relock.WithKeyPrefix("test:" + uuid.NewString() + ":")
	return func() *relock.Client { return newClientOfSentinels(t, failoverOptions(s), prefix) }
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
			l := locktest.NewFailoverLoad(t, s, [2]string{"unfair", "fair"}, clientsOf(t, s), 1)
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
// takes writes.
func TestFailover(t *testing.T) {
	t.Parallel()
	for name, fail := range locktest.MasterEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinels(t, downAfter)
			holder, waiter := newClientOfSentinels(t, failoverOptions(s)), newClientOfSentinels(t, failoverOptions(s))
			watched := relock.WithWatchdog(time.Minute) // longer than the failover: sentinels vote again after 4 s
			held, err := relock.NewRedisLock("held", holder, watched, relock.WithBlock()).Acquire(t.Context())
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
			return !slices.ContainsFunc(s.Replicas(s.Agreed(t)),
				func(one *redistest.Server) bool { return one.Do(t, "EXISTS", key) == int64(0) })
		}, key+" is not at the replicas")
	}
}

// A planned failover leaves the old master writable. The client leaves it
// because the Sentinels say so, and not because anything failed: the old master
// is demoted only later.
func TestPlannedFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, testkit.Patience)
	for _, one := range s.Sentinels {
		one.Do(t, "SENTINEL", "DEBUG", "publish-period", 2*testkit.Patience.Milliseconds()) // of which four pass first
	}
	old := s.Agreed(t)
	c := newClientOfSentinels(t, failoverOptions(s))
	lock := relock.NewRedisLock("name", c, relock.WithBlock())
	require.NoError(t, lock.Do(t.Context(), func(context.Context) error { return nil }))
	awaitListeners(t, s, "default", 1)

	s.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", redistest.SentinelName)
	next := s.AwaitSuccessor(t, old)
	took := testkit.NewStopwatch(t)
	testkit.Eventually(t, testkit.Patience, func() (moved bool) {
		err := lock.Do(t.Context(), func(context.Context) error {
			moved = next.Do(t, "EXISTS", "relock:{name}") == int64(1)
			return nil
		})
		if !errors.Is(err, relock.ErrLockLost) { // one that the old master granted last
			require.NoError(t, err)
		}
		return moved
	}, "the client stays at the old master")
	took.Within(5*time.Second, "the client looked by itself") // every 10 s
	require.Contains(t, fmt.Sprintf("%s", old.Do(t, "ROLE")), "master")
	s.Return(t, old)
	require.NoError(t, lock.Do(t.Context(), func(context.Context) error { return nil }))
}

// awaitListeners waits until so many clients of a user listen to sentinels.
func awaitListeners(t testing.TB, s *redistest.Sentinels, user string, want int) {
	t.Helper()
	listens := regexp.MustCompile(` sub=[1-9].* user=` + user + " ")
	testkit.Eventually(t, testkit.Patience, func() bool {
		found := 0
		for _, one := range s.Sentinels {
			found += len(listens.FindAll(one.Do(t, "CLIENT", "LIST").([]byte), -1))
		}
		return found == want
	}, "listeners")
}

// If no Sentinel answers, the master that is known is still dialled: a hold is
// renewed over new connections, and others are granted.
func TestMasterIsDialledWithoutSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, testkit.Patience)
	c := newClientOfSentinels(t, failoverOptions(s))
	hold, err := relock.NewRedisLock("held", c, relock.WithBlock(), relock.WithWatchdog(6*time.Second)).
		Acquire(t.Context())
	require.NoError(t, err)
	for _, one := range s.Sentinels {
		one.Kill(t)
	}
	master := s.Servers[0]
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	for i := range 3 {
		master.Do(t, "CLIENT", "KILL", "TYPE", "normal")
		master.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		before := hold.ValidUntil()
		other := relock.NewRedisLock(fmt.Sprint("other ", i), c, relock.WithBlock())
		require.NoError(t, other.Do(ctx, func(context.Context) error { return nil }))
		testkit.Eventually(t, testkit.Patience, func() bool { return hold.ValidUntil().After(before) }, "no renewal")
	}
	require.NoError(t, hold.Unlock(t.Context()))
}

// clientsOfBoth returns a client with the options of go-redis, and one of
// relock, with the same prefix.
func clientsOfBoth(t testing.TB, s *redistest.Sentinels) map[string]*relock.Client {
	t.Helper()
	prefix := relock.WithKeyPrefix("test:" + uuid.NewString() + ":")
	native, err := relock.NewClientSentinel(redistest.SentinelName, s.Addresses(), "", prefix)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, native.Close()) })
	return map[string]*relock.Client{"goredis": newClientOfSentinels(t, failoverOptions(s), prefix), "native": native}
}

// A supervisor restarts a killed master during the failover, and it takes
// writes for long after that. Clients over go-redis leave it as soon as others
// do, and do not come back: no lock has two holders. With WithReplicas it has
// none at any time.
func TestMasterThatASupervisorRestarts(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, downAfter, "--appendonly", "yes", "--appendfsync", "no")
	for _, one := range s.Sentinels {
		// of which four pass before it is demoted
		one.Do(t, "SENTINEL", "DEBUG", "publish-period", 2*testkit.Patience.Milliseconds())
	}
	clients := clientsOfBoth(t, s)
	l := locktest.NewLoad(t)
	lease := relock.WithWatchdog(3 * time.Second) // for which a lost release keeps the lock
	for _, c := range clients {
		l.Begin("name", false,
			relock.NewRedisLock("name", c, relock.WithReplicas(2, time.Second/2), relock.WithBlock(), lease).Acquire)
	}
	l.AwaitAll()
	old := s.Agreed(t)
	old.Kill(t)
	_, port, err := net.SplitHostPort(old.Address)
	require.NoError(t, err)
	// A replica is promoted, or the failover is over. Before that, a vote or an
	// order without a result ends the failover of a master that answers again.
	promoted := regexp.MustCompile(`failover-state (reconf_slaves|update_config)`)
	testkit.Eventually(t, testkit.Patience, func() bool {
		return slices.ContainsFunc(s.Sentinels, func(one *redistest.Server) bool {
			master := fmt.Sprintf("%s", one.Do(t, "SENTINEL", "MASTER", redistest.SentinelName))
			return promoted.MatchString(master) || !strings.Contains(master, " "+port+" ")
		})
	}, "no failover")
	old.BootAndLoad(t)
	next := s.AwaitSuccessor(t, old)
	took := testkit.NewStopwatch(t)
	for name, c := range clients {
		testkit.Eventually(t, testkit.Patience, func() bool { return isAt(t, c, next, name) },
			"the client stays at the old master")
	}
	took.Within(5*time.Second, "a client looked by itself") // every 10 s
	for i := range 100 {
		requireOneHolder(t, fmt.Sprint("of goredis first ", i), clients["goredis"], clients["native"])
		requireOneHolder(t, fmt.Sprint("of native first ", i), clients["native"], clients["goredis"])
	}
	require.Contains(t, fmt.Sprintf("%s", old.Do(t, "ROLE")), "master")
	s.Return(t, old)
	l.AwaitAll()
	l.Stop()
	l.RequireNoOverlap()
}

// isAt reports whether a client takes this lock at this server.
func isAt(t testing.TB, c *relock.Client, at *redistest.Server, name string) bool {
	t.Helper()
	h, err := relock.NewRedisLock(name, c, relock.WithBlock()).Acquire(t.Context())
	require.NoError(t, err)
	found := at.Do(t, "EXISTS", locktest.KeyOf(c, name)) == int64(1)
	_ = h.Unlock(context.Background()) // the old master may have granted it
	return found
}

// requireOneHolder requires that one client gets a free lock, and that the
// other does not meanwhile.
func requireOneHolder(t testing.TB, name string, one, other *relock.Client) {
	t.Helper()
	h, err := relock.NewRedisLock(name, one).TryAcquire(t.Context())
	require.NoError(t, err)
	_, err = relock.NewRedisLock(name, other).TryAcquire(t.Context())
	require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers, name)
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(t.Context()))
}

// A failover is over. The first TryLock of idle clients succeeds, with the
// options of go-redis and without. The old master refuses connections, or it
// hangs.
func TestFirstTryAfterAFailover(t *testing.T) {
	t.Parallel()
	const idle = 5 * time.Second // after which the driver checks a route
	for name, end := range locktest.MasterEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinels(t, downAfter)
			clients := map[string]*relock.Client{}
			for i := range 3 {
				for name, c := range clientsOfBoth(t, s) {
					clients[fmt.Sprint(name, " ", i)] = c
				}
			}
			for name, c := range clients {
				require.NoError(t, relock.NewRedisLock(name, c).TryDo(t.Context(), func(context.Context) error { return nil }))
			}
			last, old := time.Now(), s.Agreed(t)
			end(old, t)
			s.AwaitSuccessor(t, old)
			<-time.After(time.Until(last.Add(idle)))
			for name, c := range clients {
				watch := testkit.NewStopwatch(t)
				require.NoError(t, relock.NewRedisLock(name, c, relock.WithExpiry(time.Hour)).TryLock(t.Context()), name)
				watch.Within(2*time.Second, name)
			}
		})
	}
}

package relock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

const (
	unserved = "relock: no usable server for waiting calls"
	served   = "relock: waiting calls have a usable server again"
	unwanted = "relock: no call waits for the server any more"
)

// While calls of any kind wait and the server grants nothing, one line reports
// it for all of them, with the reason. Another one reports the end. Calls that
// were in the queue before are not silent either.
func TestWaitsWithoutAUsableServer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fail, mend func(t *testing.T, s *redistest.Server, p *faults.Proxy)
		reason     string
		answers    bool // it still answers, with the holder of a lock
	}{
		"nothing listens": {
			func(_ *testing.T, _ *redistest.Server, p *faults.Proxy) { p.Refuse() },
			func(_ *testing.T, _ *redistest.Server, p *faults.Proxy) { p.Accept() },
			"connection refused", false,
		},
		"a replica": {
			func(t *testing.T, s *redistest.Server, _ *faults.Proxy) { s.Do(t, "REPLICAOF", "127.0.0.1", "1") },
			func(t *testing.T, s *redistest.Server, _ *faults.Proxy) { s.Do(t, "REPLICAOF", "NO", "ONE") },
			"READONLY", false,
		},
		"a full memory": {
			func(t *testing.T, s *redistest.Server, _ *faults.Proxy) { s.Do(t, "CONFIG", "SET", "maxmemory", "1") },
			func(t *testing.T, s *redistest.Server, _ *faults.Proxy) { s.Do(t, "CONFIG", "SET", "maxmemory", "0") },
			"OOM", true,
		},
	} {
		for _, queued := range []bool{false, true} {
			if queued && tt.answers {
				continue
			}
			t.Run(fmt.Sprint(name, ", queued: ", queued), func(t *testing.T) {
				t.Parallel()
				s := redistest.StartTCP(t)
				var log locktest.LogBuffer
				c, p := locktest.Behind(t, s, log.Option())
				var held []relock.Hold
				if queued {
					held = holdAll(t, locktest.Sibling(t, s, c))
				} else {
					tt.fail(t, s, p)
				}
				calls := lockAll(t, c)
				if queued {
					testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Waiting == len(calls) }, "all wait")
					tt.fail(t, s, p)
				}
				testkit.Eventually(t, testkit.Patience,
					func() bool { return log.Lines("level=WARN", unserved) == 1 }, "it is logged")
				require.Equal(t, 1, log.Lines(unserved, " server="+p.Address+" ", tt.reason), log.String())
				testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Waiting == len(calls) }, "all wait")
				tt.mend(t, s, p)
				for _, h := range held {
					require.NoError(t, h.Unlock(t.Context()))
				}
				testkit.AllWithin(t, calls, testkit.Patience)
				testkit.Eventually(t, testkit.Patience, func() bool { return log.Lines("level=INFO", served) == 1 }, log.String())
				require.Equal(t, 2, log.Lines("usable server"), log.String())
				require.Zero(t, log.Lines(unwanted), log.String())
				require.Zero(t, c.Stats().Waiting)
			})
		}
	}
}

// lockAll starts calls that wait for locks of all kinds.
func lockAll(t *testing.T, c *relock.Client) (calls []<-chan error) {
	for kind, newLock := range locktest.AllKinds {
		for n := range 3 {
			lock := newLock(fmt.Sprint(kind, n), c, relock.WithBlock())
			calls = append(calls, testkit.Async(t, func() error { return lock.Do(t.Context(), locktest.Nothing) }))
		}
	}
	return calls
}

// holdAll takes the locks of lockAll.
func holdAll(t *testing.T, c *relock.Client) (held []relock.Hold) {
	for kind := range locktest.AllKinds {
		newLock := locktest.AllKinds["RedisLock"]
		switch kind {
		case "ReentrantLock", "Semaphore":
			newLock = locktest.AllKinds[kind]
		case "RWLock", "RWLock, reading":
			newLock = locktest.AllKinds["RWLock"]
		}
		for n := range 3 {
			held = append(held, locktest.Take(t, newLock(fmt.Sprint(kind, n), c, relock.WithExpiry(time.Hour)).Acquire))
		}
	}
	return held
}

// The first program of README, on a wrong port. A call that leaves ends the
// outage, and says no more than that.
func TestFirstWaitOnAWrongPort(t *testing.T) {
	t.Parallel()
	var log locktest.LogBuffer
	address := locktest.ClosedPort(t)
	c := locktest.CloseLater(t)(relock.NewClientURL("redis://"+address, log.Option()))
	require.ErrorContains(t, c.Ping(t.Context()), "refused")
	ctx, cancel := context.WithCancel(t.Context())
	call := testkit.Async(t, func() error { return relock.NewRedisLock("k", c, relock.WithBlock()).Lock(ctx) })
	testkit.Eventually(t, testkit.Patience, func() bool { return log.Lines("level=WARN", unserved) == 1 }, "it is logged")
	require.Equal(t, 1, log.Lines(" server="+address+" since=", " waiting=1 ", "refused"), log.String())
	cancel()
	require.ErrorIs(t, testkit.ResultWithin(t, call, testkit.Patience), context.Canceled)
	testkit.Eventually(t, testkit.Patience, func() bool { return log.Lines("level=INFO", unwanted) == 1 }, log.String())
	require.Zero(t, log.Lines(served))
}

// A client of several servers names the one that fails. It has no name while
// nothing is known of the servers.
func TestOutageOfSeveralServers(t *testing.T) {
	t.Parallel()
	for name, newClient := range map[string]func(address string, opts ...relock.ClientOption) (*relock.Client, error){
		"Sentinel": func(address string, opts ...relock.ClientOption) (*relock.Client, error) {
			return relock.NewClientSentinel("main", []string{address}, "", opts...)
		},
		"Cluster": func(address string, opts ...relock.ClientOption) (*relock.Client, error) {
			return relock.NewClientCluster([]string{address}, "", opts...)
		},
		"topology": func(address string, opts ...relock.ClientOption) (*relock.Client, error) {
			return locktest.NewRoutedClient(&driver.Topology{
				Master:  func(context.Context, string) (string, error) { return address, nil },
				Masters: func(context.Context) ([]string, error) { return []string{address}, nil },
			}, opts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log locktest.LogBuffer
			address := locktest.ClosedPort(t)
			c := locktest.CloseLater(t)(newClient(address, log.Option()))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			testkit.Async(t, func() error { return relock.NewRedisLock("k", c, relock.WithBlock()).Lock(ctx) })
			testkit.Eventually(t, testkit.Patience, func() bool {
				return log.Lines("level=WARN", unserved, address, "refused") == 1
			}, "it is logged")
			if name == "topology" {
				require.Equal(t, 1, log.Lines(unserved, " server="+address+" "), log.String())
			} else {
				require.Zero(t, log.Lines(" server="), log.String())
			}
		})
	}
}

// A lock that is only held by others is no outage, and neither are calls that
// do not wait.
func TestWaitForOthersIsNoOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var log locktest.LogBuffer
	c := locktest.NewTestClient(t, s, log.Option())
	other := locktest.Sibling(t, s, c)
	var calls []<-chan error
	var held []relock.Hold
	for kind, newLock := range locktest.Kinds {
		held = append(held, locktest.Take(t, newLock(kind, other).Acquire))
		lock := newLock(kind, c, relock.WithBlockTimeout(1500*time.Millisecond))
		calls = append(calls, testkit.Async(t, func() error { return lock.Lock(t.Context()) }))
	}
	for _, call := range calls {
		require.ErrorIs(t, testkit.ResultWithin(t, call, testkit.Patience), relock.ErrLockAcquiredByOthers)
	}
	away := locktest.Unconnected(t, log.Option())
	require.Error(t, relock.NewRedisLock("k", away).Lock(t.Context()))
	require.Error(t, relock.NewRedisLock("k", away, relock.WithBlock()).TryLock(t.Context()))
	for _, h := range held {
		require.NoError(t, h.Unlock(t.Context()))
	}
	require.Zero(t, log.Lines("usable server"), log.String())
	require.Zero(t, log.Lines(unwanted), log.String())
}

// Ping finds a server that grants no locks because of what it is.
func TestPingFindsTheRole(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	c := locktest.NewTestClient(t, s)
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	err := c.Ping(t.Context())
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorContains(t, err, "the server is a replica of 127.0.0.1:1")
	less := locktest.AsUser(t, s, "less", "less:", []any{"~*", "+@all", "-info"})
	require.NoError(t, less.Ping(t.Context()), "it may not ask")
	s.Do(t, "REPLICAOF", "NO", "ONE")
	require.NoError(t, c.Ping(t.Context()))

	sentinels := redistest.StartSentinels(t, testkit.Patience)
	for _, to := range []*redistest.Server{sentinels.Sentinels[0], s} {
		routed := locktest.Routed(t, to, to)
		for _, c := range []*relock.Client{locktest.NewTestClient(t, to), routed} {
			if err := c.Ping(t.Context()); to != s {
				require.ErrorIs(t, err, relock.ErrInvalid)
				require.ErrorContains(t, err, "the server is a sentinel")
			} else {
				require.NoError(t, err)
			}
		}
	}
	require.NoError(t, locktest.SentinelClient(t, sentinels).Ping(t.Context()))
}

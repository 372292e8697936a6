package matrix_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// virtualAddress forwards new connections to whichever server is current, as a virtual IP or a DNS name does. Old connections stay where
// they are.
type virtualAddress struct {
	address string
	current atomic.Pointer[redistest.Server]
	group   sync.WaitGroup

	mu   sync.Mutex
	open []net.Conn
}

func newVirtualAddress(t testing.TB, s *redistest.Server) *virtualAddress {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	v := &virtualAddress{address: listener.Addr().String()}
	v.current.Store(s)
	v.group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			v.forward(conn)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		v.mu.Lock()
		for _, conn := range v.open {
			_ = conn.Close() // mostly closed already
		}
		v.mu.Unlock()
		v.group.Wait()
	})
	return v
}

func (v *virtualAddress) forward(client net.Conn) {
	s := v.current.Load()
	server, err := net.Dial(s.Network, s.Address)
	if err != nil {
		_ = client.Close()
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open = append(v.open, client, server)
	v.group.Go(func() { pump(server, client) })
	v.group.Go(func() { pump(client, server) })
}

func pump(to, from net.Conn) {
	_, _ = io.Copy(to, from) // ends with either
	_ = to.Close()
}

// startPair starts a master and its replica, and an address that leads to the master.
func startPair(t testing.TB) (v *virtualAddress, failover func()) {
	v, master, replica := newPair(t)
	return v, func() {
		testkit.Eventually(t, 10*time.Second, func() bool {
			return info(t, master, "master_repl_offset") == info(t, replica, "master_repl_offset")
		}, "the replica is behind")
		replica.Do(t, "REPLICAOF", "NO", "ONE")
		v.current.Store(replica)
		locktest.Replicate(t, master, replica)
	}
}

func newPair(t testing.TB) (v *virtualAddress, master, replica *redistest.Server) {
	master, replica = redistest.StartTCP(t, "--repl-diskless-sync-delay", "0"), redistest.StartTCP(t)
	locktest.Replicate(t, replica, master)
	testkit.Eventually(t, 10*time.Second, func() bool { return info(t, replica, "master_link_status") == "up" }, "the replica has no link")
	return newVirtualAddress(t, master), master, replica
}

// info is a field of INFO replication.
func info(t testing.TB, s *redistest.Server, field string) string {
	return infoOf(t, s, "replication", field)
}

func infoOf(t testing.TB, s *redistest.Server, section, field string) string {
	text, err := redis.String(s.Do(t, "INFO", section), nil)
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	return ""
}

// After a planned failover behind one address the connections lead to the old master, which answers READONLY. A hold goes over to new
// ones: the new master has the key.
func TestHoldSurvivesFailoverBehindOneAddress(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second // of which a command has a third: a machine that stalls must not cost a connection
	v, failover := startPair(t)
	c, err := relock.NewClient("tcp", v.address, "")
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a second Close does nothing
	h, err := relock.NewRedisLock("lock", c, relock.WithWatchdog(lease)).Acquire(t.Context())
	require.NoError(t, err)
	acquired := h.ValidUntil()
	testkit.Eventually(t, lease, func() bool { return h.ValidUntil().After(acquired) }, "the watchdog has no connection")
	failover()
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
	v, failover := startPair(t)
	c, err := relock.NewClient("tcp", v.address, "")
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a second Close does nothing
	lock := relock.NewRedisLock("lock", c, relock.WithBlockTimeout(10*time.Second))
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	failover()
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
}

// A blocking Lock rides out a server that has no connection free at the moment.
func TestBlockingLockRidesOutTooManyClients(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	open := []redis.Conn{s.Dial(t), s.Dial(t)}
	for _, conn := range open { // both are in before there is no room for another
		_, err := conn.Do("CONFIG", "SET", "maxclients", "2")
		require.NoError(t, err)
	}
	c := locktest.NewTestClient(t, s)
	// The server says so and cuts the connection, which may be seen first.
	require.True(t, relock.IsRetryableErr(relock.NewRedisLock("lock", c).TryLock(t.Context())))
	result := testkit.Async(t, func() error { return relock.NewRedisLock("lock", c, relock.WithBlock()).Lock(t.Context()) })
	for _, conn := range open {
		require.NoError(t, conn.Close())
	}
	require.NoError(t, testkit.ResultWithin(t, result, 10*time.Second))
}

package locktest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// RedLease is the largest lease of most tests, so that new servers count soon.
const RedLease = 3 * time.Second

// RedServers keeps servers that were started for a later test. A RedLock counts
// no server before it has been up for a lease, and tests that wait for that
// keep others from running.
var RedServers serverStock

type serverStock struct {
	mu      sync.Mutex
	servers []stocked
}

type stocked struct {
	*redistest.Server
	stop func()
}

// stockSize is more than one test takes.
const stockSize = 12

// Take returns n servers until the test ends, the oldest ones first. It starts
// as many for the next tests.
func (c *serverStock) Take(t testing.TB, n int) (all []*redistest.Server) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.servers) < n {
		c.lay(t)
	}
	for _, s := range c.servers[:n] {
		t.Cleanup(s.stop)
		all = append(all, s.Server)
	}
	c.servers = c.servers[n:]
	for i := 0; i < n && len(c.servers) < stockSize; i++ {
		c.lay(t)
	}
	return all
}

// lay starts one more server. mu must be locked.
func (c *serverStock) lay(t testing.TB) {
	t.Helper()
	redistest.Binary(t)
	s, stop, err := redistest.Launch()
	require.NoError(t, err)
	c.servers = append(c.servers, stocked{WithScripts(t, s), stop})
}

// Close stops the servers that no test has taken.
func (c *serverStock) Close() {
	for _, s := range c.servers {
		s.stop()
	}
}

// NewRedServers returns n servers that have been up for longer than RedLease.
func NewRedServers(t testing.TB, n int) []*redistest.Server {
	t.Helper()
	all := RedServers.Take(t, n)
	for _, s := range all {
		AwaitUp(t, s)
	}
	return all
}

// AwaitUp waits until the server counts for leases of up to RedLease.
func AwaitUp(t testing.TB, s *redistest.Server) {
	t.Helper()
	s.AwaitUp(t, int(RedLease/time.Second)+1)
}

// RedBench is a set of servers, which count already, and their clients, which
// share a prefix.
type RedBench struct {
	testing.TB
	Servers []*redistest.Server
	Proxies []*faults.Proxy
	Clients []*relock.Client
	Prefix  string
}

// NewRedBench returns a bench with a client of each server, behind a proxy.
func NewRedBench(t testing.TB, servers []*redistest.Server, opts ...relock.ClientOption) *RedBench {
	t.Helper()
	b := &RedBench{TB: t, Servers: servers, Prefix: newPrefix()}
	for _, s := range servers {
		p := faults.Start(t, s.Network, s.Address)
		b.Proxies = append(b.Proxies, p)
		b.Clients = append(b.Clients, b.Client(ServerOf(p), opts...))
	}
	return b
}

// Client returns a client of one server.
func (b *RedBench) Client(s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	b.Helper()
	return NewTestClient(b, s, append([]relock.ClientOption{relock.WithKeyPrefix(b.Prefix)}, opts...)...)
}

// Others returns clients as another process would have, not behind the proxies.
func (b *RedBench) Others(opts ...relock.ClientOption) (all []*relock.Client) {
	b.Helper()
	for _, s := range b.Servers {
		all = append(all, b.Client(s, opts...))
	}
	return all
}

// Lock returns a lock with the lease of the tests.
func (b *RedBench) Lock(clients []*relock.Client, opts ...relock.LockOption) *relock.RedLock {
	return relock.NewRedLock("k", clients,
		append([]relock.LockOption{relock.WithMaxLease(RedLease), relock.WithWatchdog(RedLease)}, opts...)...)
}

// Patient returns a lock that waits longer for its nodes.
func (b *RedBench) Patient(opts ...relock.LockOption) PatientRedLock {
	return NewPatientRedLock("k", b.Clients, opts...)
}

// Connect makes the clients know their servers, and leaves no node with a
// request under way.
func (b *RedBench) Connect(l AnyLock) {
	b.Helper()
	require.NoError(b, l.Do(b.Context(), Nothing))
	for _, p := range b.Proxies {
		require.True(b, p.Await(RedReleases, 1, testkit.Patience), "the first hold is over")
	}
	b.RequireFree(testkit.Patience)
}

// RedReleases reports whether a request is the release of a node: of a hold, or
// of a round that failed.
func RedReleases(args []string) bool {
	return faults.Script(script.Release.SHA)(args) || faults.Script(script.RedLockRelease.SHA)(args)
}

// HeldNodes returns how many nodes have the lock's key.
func (b *RedBench) HeldNodes() (n int) {
	b.Helper()
	for _, s := range b.Servers {
		if s.Do(b, "EXISTS", b.Prefix+"{k}") == int64(1) {
			n++
		}
	}
	return n
}

// RequireFree waits until all nodes are free.
func (b *RedBench) RequireFree(limit time.Duration) {
	b.Helper()
	EventuallyWithin(b, limit, func() bool { return b.HeldNodes() == 0 }, "all nodes are free")
}

// StoreHolds makes nodes look held for a lease by holds with these names. ""
// leaves a node free.
func (b *RedBench) StoreHolds(lease time.Duration, holds ...string) {
	b.Helper()
	for node, hold := range holds {
		if hold != "" {
			b.Servers[node].Do(b, "SET", b.Prefix+"{k}", RedValue(hold, node), "PX", lease.Milliseconds())
		}
	}
}

// RequireHeldBy waits until n nodes are held.
func (b *RedBench) RequireHeldBy(n int) {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool { return b.HeldNodes() == n }, "held by others")
}

// WithoutTheThird returns a hold of three nodes whose third one does not answer
// yet.
func (b *RedBench) WithoutTheThird(l AnyLock) relock.Hold {
	b.Helper()
	b.Proxies[2].Stall()
	h := Take(b, l.Acquire)
	require.Equal(b, 2, NodesOf(h))
	return h
}

// TakeWhole returns a hold of all nodes. A late request of a call before may
// hold one of them for a moment, and then a hold has the others only.
func (b *RedBench) TakeWhole(opts ...relock.LockOption) (h relock.Hold) {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool {
		h = Take(b, b.Patient(opts...).Acquire)
		for limit := time.Now().Add(CleanWithin); time.Now().Before(limit); time.Sleep(time.Millisecond) {
			if NodesOf(h) == len(b.Servers) {
				return true
			}
		}
		require.NoError(b, h.Unlock(b.Context()))
		return false
	}, "all nodes grant it")
	return h
}

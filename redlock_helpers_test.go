package relock

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// redLease is the largest lease of most tests, so that new servers are counted soon.
const redLease = 3 * time.Second

// redBench is a set of servers, which count already, and clients of them that share a prefix.
type redBench struct {
	testing.TB
	servers []*redistest.Server
	proxies []*faults.Proxy
	clients []*Client
	prefix  string
}

// newRedServers are n servers that have been up for longer than redLease.
func newRedServers(t testing.TB, n int) []*redistest.Server {
	t.Helper()
	all := redCellar.take(t, n)
	for _, s := range all {
		awaitUp(t, s)
	}
	return all
}

// awaitUp waits until the server is counted where no lease is above redLease.
func awaitUp(t testing.TB, s *redistest.Server) {
	t.Helper()
	s.AwaitUp(t, int(redLease/time.Second)+1)
}

// newRedBench has a client of each server, behind a proxy.
func newRedBench(t testing.TB, servers []*redistest.Server, opts ...ClientOption) *redBench {
	t.Helper()
	b := &redBench{TB: t, servers: servers, prefix: "test:" + uuid.NewString() + ":"}
	for _, s := range servers {
		p := faults.Start(t, s.Network, s.Address)
		b.proxies = append(b.proxies, p)
		b.clients = append(b.clients, b.client(&redistest.Server{Network: p.Network, Address: p.Address}, opts...))
	}
	return b
}

func (b *redBench) client(s *redistest.Server, opts ...ClientOption) *Client {
	b.Helper()
	return newTestClient(b, s, append([]ClientOption{WithKeyPrefix(b.prefix)}, opts...)...)
}

// others are clients as another process would have, not behind the proxies.
func (b *redBench) others(opts ...ClientOption) (all []*Client) {
	b.Helper()
	for _, s := range b.servers {
		all = append(all, b.client(s, opts...))
	}
	return all
}

// lock is one with the lease of the tests.
func (b *redBench) lock(clients []*Client, opts ...LockOption) *RedLock {
	return NewRedLock("k", clients, append([]LockOption{WithMaxLease(redLease), WithWatchdog(redLease)}, opts...)...)
}

// patient is a lock whose nodes are waited for longer.
func (b *redBench) patient(opts ...LockOption) *RedLock { return b.patientBy(b.clients, opts...) }

func (b *redBench) patientBy(clients []*Client, opts ...LockOption) *RedLock {
	l := NewRedLock("k", clients, append([]LockOption{WithMaxLease(cellLease), WithWatchdog(cellLease)}, opts...)...)
	l.target.Settings.MaxLease = redLease // the servers are new, and remember all
	return l
}

// meet makes the clients know their servers, and leaves no node that is yet to be granted or given back.
func (b *redBench) meet(l *RedLock) {
	b.Helper()
	require.NoError(b, l.Do(b.Context(), nothing))
	for _, p := range b.proxies {
		require.True(b, p.Await(redReleases, 1, testkit.Patience), "the first hold is over")
	}
	b.requireFree(testkit.Patience)
}

// redReleases are the releases of nodes: of a hold, and of a round that failed.
func redReleases(args []string) bool {
	return faults.Script(script.Release.SHA)(args) || faults.Script(script.RedLockRelease.SHA)(args)
}

// holding are the nodes that have the lock's key.
func (b *redBench) holding() (n int) {
	b.Helper()
	for _, s := range b.servers {
		if s.Do(b, "EXISTS", b.prefix+"{k}") == int64(1) {
			n++
		}
	}
	return n
}

func (b *redBench) requireFree(limit time.Duration) {
	b.Helper()
	testkit.Eventually(b, limit, func() bool { return b.holding() == 0 }, "all nodes are free")
}

// count is how often the log says something.
func (b *logBuffer) count(text string) int { return strings.Count(b.String(), text) }

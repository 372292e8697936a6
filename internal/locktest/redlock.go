package locktest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// RedLease is the largest lease of most tests, so that new servers are counted soon.
const RedLease = 3 * time.Second

// RedBench is a set of servers, which count already, and clients of them that share a prefix.
type RedBench struct {
	testing.TB
	Servers []*redistest.Server
	Proxies []*faults.Proxy
	Clients []*relock.Client
	Prefix  string
}

// NewRedServers are n servers that have been up for longer than redLease.
func NewRedServers(t testing.TB, n int) []*redistest.Server {
	t.Helper()
	all := RedCellar.Take(t, n)
	for _, s := range all {
		AwaitUp(t, s)
	}
	return all
}

// AwaitUp waits until the server is counted where no lease is above redLease.
func AwaitUp(t testing.TB, s *redistest.Server) {
	t.Helper()
	s.AwaitUp(t, int(RedLease/time.Second)+1)
}

// NewRedBench has a client of each server, behind a proxy.
func NewRedBench(t testing.TB, servers []*redistest.Server, opts ...relock.ClientOption) *RedBench {
	t.Helper()
	b := &RedBench{TB: t, Servers: servers, Prefix: "test:" + uuid.NewString() + ":"}
	for _, s := range servers {
		p := faults.Start(t, s.Network, s.Address)
		b.Proxies = append(b.Proxies, p)
		b.Clients = append(b.Clients, b.Client(&redistest.Server{Network: p.Network, Address: p.Address}, opts...))
	}
	return b
}

func (b *RedBench) Client(s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	b.Helper()
	return NewTestClient(b, s, append([]relock.ClientOption{relock.WithKeyPrefix(b.Prefix)}, opts...)...)
}

// Others are clients as another process would have, not behind the proxies.
func (b *RedBench) Others(opts ...relock.ClientOption) (all []*relock.Client) {
	b.Helper()
	for _, s := range b.Servers {
		all = append(all, b.Client(s, opts...))
	}
	return all
}

// Lock is one with the lease of the tests.
func (b *RedBench) Lock(clients []*relock.Client, opts ...relock.LockOption) *relock.RedLock {
	return relock.NewRedLock("k", clients, append([]relock.LockOption{relock.WithMaxLease(RedLease), relock.WithWatchdog(RedLease)}, opts...)...)
}

// Patient is a lock whose nodes are waited for longer.
func (b *RedBench) Patient(opts ...relock.LockOption) *relock.RedLock {
	return b.patientBy(b.Clients, opts...)
}

func (b *RedBench) patientBy(clients []*relock.Client, opts ...relock.LockOption) *relock.RedLock {
	l := relock.NewRedLock("k", clients, append([]relock.LockOption{relock.WithMaxLease(CellLease), relock.WithWatchdog(CellLease)}, opts...)...)
	Target(l).Settings.MaxLease = RedLease // the servers are new, and remember all
	return l
}

// Meet makes the clients know their servers, and leaves no node that is yet to be granted or given back.
func (b *RedBench) Meet(l *relock.RedLock) {
	b.Helper()
	require.NoError(b, l.Do(b.Context(), Nothing))
	for _, p := range b.Proxies {
		require.True(b, p.Await(RedReleases, 1, testkit.Patience), "the first hold is over")
	}
	b.RequireFree(testkit.Patience)
}

// RedReleases are the releases of nodes: of a hold, and of a round that failed.
func RedReleases(args []string) bool {
	return faults.Script(script.Release.SHA)(args) || faults.Script(script.RedLockRelease.SHA)(args)
}

// Holding are the nodes that have the lock's key.
func (b *RedBench) Holding() (n int) {
	b.Helper()
	for _, s := range b.Servers {
		if s.Do(b, "EXISTS", b.Prefix+"{k}") == int64(1) {
			n++
		}
	}
	return n
}

func (b *RedBench) RequireFree(limit time.Duration) {
	b.Helper()
	testkit.Eventually(b, limit, func() bool { return b.Holding() == 0 }, "all nodes are free")
}

// Count is how often the log says something.
func (b *LogBuffer) Count(text string) int { return strings.Count(b.String(), text) }

package acquire_test

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// nodes are servers for RedLocks, shared by all tests. They start first, since
// a RedLock counts a server only once it has been up for a lease.
var (
	nodes  []*redistest.Server
	taught sync.Once
)

func TestMain(m *testing.M) {
	var stops []func()
	for range 5 {
		if s, stop, err := redistest.Launch(); err == nil { // else each test says what is missing
			nodes, stops = append(nodes, s), append(stops, stop)
		}
	}
	os.Exit(locktest.Run(m, stops...))
}

// newRed returns clients of n of the shared nodes, which count already.
func newRed(t *testing.T, n int, opts ...relock.ClientOption) *locktest.RedBench {
	t.Helper()
	t.Parallel()
	return redOn(t, n, opts...)
}

func redOn(t testing.TB, n int, opts ...relock.ClientOption) *locktest.RedBench {
	t.Helper()
	redistest.Binary(t)
	require.GreaterOrEqual(t, len(nodes), n, "servers that have started")
	taught.Do(func() {
		for _, s := range nodes {
			locktest.WithScripts(t, s)
		}
	})
	for _, s := range nodes[:n] {
		locktest.AwaitUp(t, s)
	}
	b := locktest.NewRedBench(t, nodes[:n:n], opts...)
	for _, c := range b.Clients { // connects, for which a round of a lock has little time
		require.NoError(t, c.Ping(t.Context()))
	}
	return b
}

// userOf returns the name of a user of this test only.
func userOf(b *locktest.RedBench) string { return strings.Trim(b.Prefix, ":") }

// permit changes the permissions of the test's user at a node.
func permit(b *locktest.RedBench, node int, rules ...any) {
	b.Helper()
	b.Servers[node].Do(b, "ACL", append([]any{"SETUSER", userOf(b)}, rules...)...)
}

// asUser returns clients of the test's user, behind the proxies. The user has
// all permissions, changed by the rules.
func asUser(b *locktest.RedBench, rules ...any) (clients []*relock.Client) {
	b.Helper()
	for _, p := range b.Proxies {
		behind := &redistest.Server{Network: p.Network, Address: p.Address}
		clients = append(clients,
			locktest.AsUser(b, behind, userOf(b), b.Prefix, append([]any{"~*", "&*", "+@all"}, rules...)))
	}
	return clients
}

// awaitMembers waits until so many nodes have granted the hold.
func awaitMembers(t testing.TB, h relock.Hold, n int) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.NodesOf(h) == n }, "all nodes grant it")
}

// awaitRenewed waits until a quorum of a hold was renewed. The requests that
// acquired it were sent by then.
func awaitRenewed(t testing.TB, h interface{ ValidUntil() time.Time }, then time.Time) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience,
		func() bool { return h.ValidUntil().After(then.Add(locktest.RedLease)) }, "renewed")
}

// renewGroup has a hold renewed.
func renewGroup(t testing.TB, h relock.Hold) {
	t.Helper()
	until := h.ValidUntil()
	locktest.RenewNow(h)
	testkit.Eventually(t, testkit.Patience, func() bool { return h.ValidUntil().After(until) }, "renewed")
}

// seldom makes a call poll so rarely that what it notices within
// testkit.Patience is no poll's.
const seldom = time.Minute

func polledSeldom() []relock.LockOption {
	return []relock.LockOption{relock.WithPollInterval(seldom), relock.WithWatchdog(4 * seldom)}
}

// bench is a server with a client, and another client that shares its locks, as
// another process does.
type bench struct {
	testing.TB
	server        *redistest.Server
	client, other *relock.Client
	masterOf      func(key string) *redistest.Server // of a Cluster, else nil
}

func newBench(t *testing.T, opts ...relock.ClientOption) *bench {
	t.Helper()
	t.Parallel()
	return benchOn(t, redistest.Shared(t), opts...)
}

func benchOn(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *bench {
	t.Helper()
	return benchOf(t, s, locktest.NewTestClient(t, s, opts...))
}

// benchOf returns a bench with this client of the server, which may be behind a
// proxy.
func benchOf(t testing.TB, s *redistest.Server, c *relock.Client) *bench {
	t.Helper()
	return &bench{TB: t, server: s, client: c, other: locktest.Sibling(t, s, c)}
}

// at returns the server of a lock.
func (b *bench) at(key string) *redistest.Server {
	if b.masterOf != nil {
		return b.masterOf(key)
	}
	return b.server
}

func (b *bench) key(key string) string { return locktest.KeyOf(b.client, key) }

// exists returns how many of the locks have a key in Redis.
func (b *bench) exists(keys ...string) (n int64) {
	b.Helper()
	for _, key := range keys {
		n += b.at(key).Do(b, "EXISTS", b.key(key)).(int64)
	}
	return n
}

func (b *bench) requireFree(keys ...string) {
	b.Helper()
	require.Zero(b, b.exists(keys...))
}

func (b *bench) requireHeld(keys ...string) {
	b.Helper()
	for _, key := range keys {
		locktest.RequireHeld(b, b.server, b.client, key)
	}
}

// awaitFree waits until locks are free, for less than most leases.
func (b *bench) awaitFree(keys ...string) {
	b.Helper()
	locktest.EventuallyWithin(b, 10*time.Second, func() bool { return b.exists(keys...) == 0 }, "free")
}

// forget deletes locks, as a server does that loses its data.
func (b *bench) forget(keys ...string) {
	b.Helper()
	for _, key := range keys {
		b.server.Do(b, "DEL", b.key(key))
	}
}

func (b *bench) ttl(key string) time.Duration {
	b.Helper()
	return locktest.PTTL(b, b.server, b.client, key)
}

// queued reports whether one call waits for the lock in Redis.
func (b *bench) queued(key string) bool {
	b.Helper()
	return b.at(key).Do(b, "ZCARD", b.key(key)+":q") == int64(1)
}

func (b *bench) awaitQueued(key string) {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool { return b.queued(key) }, "a waiter for "+key)
}

// requireNothingLeft checks that no lock, queue or lease is left.
func (b *bench) requireNothingLeft(keys ...string) {
	b.Helper()
	locktest.RequireNoQueues(b, b.server, b.client, keys...)
}

func (b *bench) requireLevels(key string, n int) {
	b.Helper()
	locktest.RequireCount(b, b.server, b.client, key, n)
}

func requireEnds(t testing.TB, h relock.Hold, cause error) {
	t.Helper()
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 10*time.Second), cause)
}

// requireGranted waits until a blocking call has returned without an error.
func requireGranted(t testing.TB, result <-chan error) {
	t.Helper()
	require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
}

// rwStored returns what the server has of a read/write lock by the owner's
// name, as '<r or w> <reads>:<writes>'.
func rwStored(t testing.TB, s *redistest.Server, c *relock.Client, key string) map[string]string {
	t.Helper()
	stored := map[string]string{}
	for _, e := range locktest.ReadRW(t, s.Dial(t), locktest.KeyOf(c, key)) {
		stored[e.Owner] = e.Kind + " " + e.Counts
	}
	return stored
}

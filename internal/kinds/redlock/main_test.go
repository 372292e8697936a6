package redlock_test

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

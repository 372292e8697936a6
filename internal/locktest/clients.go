package locktest

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// DefaultCommandTimeout is the command timeout of a client without options.
const DefaultCommandTimeout = 3 * time.Second

// NewTestClient returns a client of the server with a separate prefix. It is
// closed when the test ends.
func NewTestClient(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	opts = append([]relock.ClientOption{relock.WithKeyPrefix("test:" + uuid.NewString() + ":")}, opts...)
	c, err := relock.NewClient(s.Network, s.Address, "", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// OnShared returns the shared server and a client of it.
func OnShared(t testing.TB, opts ...relock.ClientOption) (*redistest.Server, *relock.Client) {
	t.Helper()
	s := redistest.Shared(t)
	return s, NewTestClient(t, s, opts...)
}

// OnOwn returns a server of the test's own and a client of it.
func OnOwn(t testing.TB, opts ...relock.ClientOption) (*redistest.Server, *relock.Client) {
	t.Helper()
	s := redistest.Start(t)
	return s, NewTestClient(t, s, opts...)
}

// Behind returns a client of the server, and the proxy between the two.
func Behind(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) (*relock.Client, *faults.Proxy) {
	t.Helper()
	p := faults.Start(t, s.Network, s.Address)
	return NewTestClient(t, &redistest.Server{Network: p.Network, Address: p.Address}, opts...), p
}

// Sibling returns a second client with the same prefix, as another process
// would have.
func Sibling(t testing.TB, s *redistest.Server, c *relock.Client, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return NewTestClient(t, s, append([]relock.ClientOption{relock.WithKeyPrefix(Prefix(c))}, opts...)...)
}

// Patient returns c, whose holders have longer to learn why they were refused.
func Patient(c *relock.Client) *relock.Client {
	Engine(c).SetReasonLimit(testkit.Patience)
	return c
}

// Unconnected returns a client whose server does not run: every request is
// refused.
func Unconnected(t testing.TB, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c, err := relock.NewClient("tcp", ClosedPort(t), "", opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Equal(t, 0, PoolOf(c).ActiveCount())
		require.NoError(t, c.Close())
	})
	return c
}

// ClosedPort returns an address on which nothing listens.
func ClosedPort(t testing.TB) string {
	t.Helper()
	return "127.0.0.1:" + redistest.FreePort(t)
}

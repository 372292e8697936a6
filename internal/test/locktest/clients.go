package locktest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// DefaultCommandTimeout is the command timeout of a client without options.
const DefaultCommandTimeout = 3 * time.Second

// engines has those of the clients that CloseLater will close.
var engines sync.Map

// CloseLater returns a function that takes what made a client. It requires that
// there was no error, and closes the client when the test ends.
func CloseLater(t testing.TB) func(*relock.Client, error) *relock.Client {
	return func(c *relock.Client, err error) *relock.Client {
		t.Helper()
		require.NoError(t, err)
		e := Engine(c)
		engines.Store(e, true)
		t.Cleanup(func() {
			engines.Delete(e)
			require.NoError(t, c.Close())
		})
		return c
	}
}

// NewTestClient returns a client of the server with a separate prefix. It is
// closed when the test ends.
func NewTestClient(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return CloseLater(t)(relock.NewClient(s.Network, s.Address, "", apart(opts)...))
}

// apart returns the options of a client with a separate prefix, unless they
// have one.
func apart(opts []relock.ClientOption) []relock.ClientOption {
	return append([]relock.ClientOption{relock.WithKeyPrefix(newPrefix())}, opts...)
}

func newPrefix() string { return "test:" + uuid.NewString() + ":" }

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
	return NewTestClient(t, ServerOf(p), opts...), p
}

// ServerOf returns the server as the proxy shows it.
func ServerOf(p *faults.Proxy) *redistest.Server {
	return &redistest.Server{Network: p.Network, Address: p.Address}
}

// Sibling returns a second client with the same prefix, as another process
// would have.
func Sibling(t testing.TB, s *redistest.Server, c *relock.Client, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return NewTestClient(t, s, append([]relock.ClientOption{relock.WithKeyPrefix(Prefix(c))}, opts...)...)
}

// AsUser returns a client with this prefix, as a user with these permissions.
func AsUser(
	t testing.TB, s *redistest.Server, user, prefix string, rules []any, opts ...relock.ClientOption,
) *relock.Client {
	t.Helper()
	s.Do(t, "ACL", append([]any{"SETUSER", user, "on", ">pw"}, rules...)...)
	return CloseLater(t)(relock.NewClient(s.Network, s.Address, "pw",
		append(opts, relock.WithUsername(user), relock.WithKeyPrefix(prefix))...))
}

// Patient returns c, whose holders have longer to learn why they were refused.
func Patient(c *relock.Client) *relock.Client {
	Engine(c).Limits.Notice = testkit.Patience
	return c
}

// Unconnected returns a client whose server does not run: every request is
// refused.
func Unconnected(t testing.TB, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c := CloseLater(t)(relock.NewClient("tcp", ClosedPort(t), "", opts...))
	t.Cleanup(func() { require.Equal(t, 0, PoolOf(c).Connections()) })
	return c
}

// ClosedPort returns an address on which nothing listens.
func ClosedPort(t testing.TB) string {
	t.Helper()
	return "127.0.0.1:" + redistest.FreePort(t)
}

// AsUserPool returns a client on a pool of the user's. The pool dials the
// server unless it has a dial.
func AsUserPool(t testing.TB, s *redistest.Server, pool *redis.Pool, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	if pool.Dial == nil && pool.DialContext == nil {
		pool.Dial = func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }
	}
	t.Cleanup(func() { _ = pool.Close() })
	return CloseLater(t)(relock.NewClientPool(pool,
		append([]relock.ClientOption{relock.WithKeyPrefix("test:")}, opts...)...))
}

// Sharing makes all commands of locks share one connection, not only those
// beyond the first few: as many calls as have their own do not end before the
// test does. They have not asked for a connection.
func Sharing(t testing.TB, c *relock.Client) *relock.Client {
	const many = 8
	entered := make(chan struct{}, many)
	ctx, end := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for range many {
		group.Go(func() { PoolOf(c).Send(stuck{ctx, entered}, driver.Limits{}, driver.Request{Cmd: "PING"}) })
	}
	for range many {
		<-entered
	}
	t.Cleanup(func() {
		end()
		group.Wait()
	})
	return c
}

// stuck is a context whose Err waits until it has ended.
type stuck struct {
	context.Context
	entered chan<- struct{}
}

func (s stuck) Err() error {
	s.entered <- struct{}{}
	<-s.Done()
	return s.Context.Err()
}

// PoolOf returns the pool below a client.
func PoolOf(c *relock.Client) *conns.Pool { return Engine(c).Driver.(*conns.Pool) }

// Occupy keeps n connections of the client's pool in calls that wait at the
// server. They continue until they are freed or the client is closed.
func Occupy(t testing.TB, s *redistest.Server, c *relock.Client, n int) (free func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	const list = "occupied"
	var calls []<-chan error
	for range n {
		calls = append(calls, testkit.Async(t, func() error {
			for ctx.Err() == nil { // the command timeout ends a call
				r := PoolOf(c).Call(ctx, driver.Limits{}, driver.Request{Cmd: "BLPOP", Args: []any{list, 0}})
				if errors.Is(r.Err, relock.ErrClosed) {
					return nil
				}
			}
			return nil
		}))
	}
	await := func(blocked int, what string) {
		t.Helper()
		is := func() bool { return s.Info(t, "clients", "blocked_clients") == int64(blocked) }
		testkit.Eventually(t, testkit.Patience, is, what)
	}
	await(n, "no connection is free")
	return sync.OnceFunc(func() {
		cancel()
		testkit.AllWithin(t, calls, testkit.Patience)
		for range n {
			s.Do(t, "RPUSH", list, "x")
		}
		await(0, "all are free")
		s.Do(t, "DEL", list)
	})
}

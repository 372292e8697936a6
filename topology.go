package relock

import (
	"context"
	"net"
	"slices"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
)

// Topology says where the servers of a client are. It is experimental until
// 1.0. Its functions may be called concurrently, must return when their context
// ends, and must not use the client.
//
// An address is host:port, or the path of a unix socket. Addresses name
// servers: all clients must use the same one for a key, or two of them can hold
// one lock. A topology may move a key to another server once the old server
// refuses writes of it.
type Topology struct {
	// Master returns the address of the server that takes writes of a key. The
	// key is as in Redis, with prefix and braces. Keys with the same text in
	// their first braces have the same server. The empty key means any server.
	//
	// It is called for each request and each renewal, so it should answer from
	// memory.
	Master func(ctx context.Context, key string) (address string, err error)

	// Masters returns the addresses of all servers that take writes.
	Masters func(ctx context.Context) (addresses []string, err error)

	// Dial opens a connection to a server, encrypted if that is wanted. It is
	// optional, and excludes [WithDialer]. Without it the options of the client
	// apply.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	// Login returns the user and the password of a new connection to a server,
	// see [WithCredentials]. It is optional, and excludes the other ways to log
	// in.
	Login func(ctx context.Context, address string) (user, password string, err error)

	// Invalidate is called if a server does not answer, or takes no writes. It
	// must return immediately. It is optional.
	Invalidate func(address string)

	// Changes has a value if masters have changed. Then the connections to
	// servers that are not among Masters are closed, and all waiters check. It
	// is optional.
	Changes <-chan struct{}

	// Close is called by [Client.Close]. It is optional.
	Close func() error
}

// NewClientTopology returns a client of the servers of t. It is experimental
// until 1.0. It calls no function of t. The options of a pool, such as
// [WithMaxActive], are those of each server.
//
// A [MultiLock] takes keys of one server together, and others one after
// another. [Client.Eval] uses the server of its first key.
func NewClientTopology(t Topology, opts ...ClientOption) (*Client, error) {
	var m lockspec.Problems
	c := newClientConfig(opts)
	m.Check(t.Master != nil, "topology: has no Master")
	m.Check(t.Masters != nil, "topology: has no Masters")
	m.Check(t.Dial == nil || !slices.Contains(c.given, "WithDialer"), "WithDialer: the topology has a Dial")
	m.Check(t.Login == nil || c.Login == nil && c.Username == "", "topology: Login beside WithCredentials or WithUsername")
	c.checkNoSentinel(&m)
	c.checkConnection(&m)
	c.check(&m)
	if err := m.Err(); err != nil {
		return nil, wrap("new client", "", err)
	}
	return newRoutedClient(c, (*driver.Topology)(&t))
}

// newRoutedClient returns a client of the servers of t.
func newRoutedClient(c *clientConfig, t *driver.Topology) (*Client, error) {
	router := driver.NewRouter(&c.Config, t)
	client, err := newClient(c, router)
	if err == nil {
		router.Watch(client.engine.NodesChanged)
	}
	return client, err
}

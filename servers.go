package relock

import (
	"context"
	"net"
	"slices"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/topology"
)

// sentinelConfig has the settings of a client that asks sentinels.
type sentinelConfig struct {
	master    string
	addresses []string
	user      string
	password  *string // see driver.Config
	mapping   func(address string) string
}

// sentinelOptions are of use only for a client that asks sentinels.
var sentinelOptions = []string{"WithSentinelLogin", "WithAddressMap"}

// NewClientSentinel returns a client of the master with this name, which the
// sentinels at the addresses name. An address is host:port. The sentinels are
// asked in this order, and each names others. The password is that of the
// servers, and may be empty. NewClientSentinel makes no network call. It
// returns all mistakes in the settings in one error, which matches
// [ErrInvalid].
//
// After a failover the client uses the new master, as soon as a sentinel names
// it and the server confirms its role. Holds and waiters continue there, if the
// lock was replicated. Redis replicates asynchronously, so a failover may lose
// a lock: see [WithReplicas].
//
// [WithTLS] and [WithDialer] apply to connections to servers and to sentinels.
// [WithUsername], [WithCredentials] and [WithDatabase] apply to servers only,
// and [WithSentinelLogin] to sentinels. The options of a pool, such as
// [WithMaxActive], are those of each server. One more connection is open to a
// sentinel, and some for a moment.
func NewClientSentinel(master string, sentinels []string, password string, opts ...ClientOption) (*Client, error) {
	c := newClientConfig(opts)
	*c.Password = password
	c.sentinel.master, c.sentinel.addresses = master, sentinels
	return newSentinelClient(c, nil)
}

func newSentinelClient(c *clientConfig, m lockspec.Problems) (*Client, error) {
	if len(m) == 0 { // see newOwnClient
		c.checkSentinels(&m)
	}
	c.checkConnection(&m)
	c.check(&m)
	if err := m.Err(); err != nil {
		return nil, wrap("new client", "", err)
	}
	s := topology.NewSentinel(topology.SentinelConfig{
		Name: c.sentinel.master, Addresses: c.sentinel.addresses, Username: c.sentinel.user, Password: c.sentinel.password,
		Map: c.sentinel.mapping, Servers: &c.Config,
	})
	return newRoutedClient(c, s.Topology())
}

// WithSentinelLogin sets the user and the password of connections to sentinels.
// An empty user is the default user. The password must not be empty. By default
// the client does not log in to sentinels. It needs [NewClientSentinel].
func WithSentinelLogin(user, password string) ClientOption {
	return ownPool("WithSentinelLogin", func(c *clientConfig) { c.sentinel.user, c.sentinel.password = user, &password })
}

// WithAddressMap sets a function that returns the address to use for one that a
// sentinel names, host:port, of a server or of another sentinel. Use it if the
// servers know themselves by other addresses than the client does, as behind
// NAT. It may be called concurrently, must return immediately, and must not be
// nil. It needs [NewClientSentinel].
func WithAddressMap(f func(address string) string) ClientOption {
	return ownPool("WithAddressMap", func(c *clientConfig) { c.sentinel.mapping = f })
}

// checkSentinels reports the mistakes in what is needed to ask sentinels.
func (c *clientConfig) checkSentinels(m *lockspec.Problems) {
	s := &c.sentinel
	m.Check(s.master != "", "master: the name is empty")
	m.Check(len(s.addresses) > 0, "sentinels: none is given")
	for i, address := range s.addresses {
		var one lockspec.Problems
		checkAddress(&one, "tcp", address)
		for _, mistake := range one {
			m.Check(false, "sentinels[%d]: %s", i, mistake)
		}
	}
	m.Check(*s.password != "" || !slices.Contains(c.given, "WithSentinelLogin"), "WithSentinelLogin: the password is empty")
	m.Check(s.mapping != nil || !slices.Contains(c.given, "WithAddressMap"), "WithAddressMap: is nil")
}

// checkNoSentinel reports the options that only a client with sentinels can
// use.
func (c *clientConfig) checkNoSentinel(m *lockspec.Problems) {
	for _, name := range sentinelOptions {
		m.Check(!slices.Contains(c.given, name), "%s: needs NewClientSentinel", name)
	}
}

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
	// optional, and excludes [WithDialer] and [WithTLS]. Without it the options
	// of the client apply.
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
	m.Check(t.Dial == nil || !c.UseTLS, "WithTLS: the topology has a Dial, which encrypts")
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

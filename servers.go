package relock

import (
	"context"
	"log/slog"
	"net"
	"slices"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/cluster"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/routes"
	"github.com/relock-go/relock/internal/redis/sentinel"
)

// serversConfig has the settings of a client that asks for its servers.
type serversConfig struct {
	addresses []string                    // of sentinels, or of servers of a Cluster
	mapping   func(address string) string // of those that they name
	master    string                      // its name; only for sentinels, as what follows
	user      string
	password  *string // see driver.Config
}

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
// a lock: use [WithReplicas] for all replicas.
//
// [WithTLS] and [WithDialer] apply to connections to servers and to sentinels.
// If only the servers encrypt, use a dialer that encrypts to them, and no
// WithTLS. Names among the addresses are resolved for each connection.
// [WithUsername], [WithCredentials] and [WithDatabase] apply to servers only,
// and [WithSentinelLogin] to sentinels. The options of a pool, such as
// [WithMaxActive], are those of each server. One more connection is open to a
// sentinel, and some for a moment.
func NewClientSentinel(master string, sentinels []string, password string, opts ...ClientOption) (*Client, error) {
	c := newClientConfig(opts)
	*c.Password = password
	c.servers.master, c.servers.addresses = master, sentinels
	return newSentinelClient(c, nil)
}

func newSentinelClient(c *clientConfig, m lockspec.Problems) (*Client, error) {
	if len(m) == 0 { // see newOwnClient
		m.Check(c.servers.master != "", "master: the name is empty")
		c.checkAddresses("sentinels", &m)
	}
	m.Check(*c.servers.password != "" || !c.has("WithSentinelLogin"), "WithSentinelLogin: the password is empty")
	c.checkConnection(&m)
	c.check(&m)
	if err := m.Err(); err != nil {
		return nil, wrap("new client", "", err)
	}
	s := sentinel.New(sentinel.Config{
		Name: c.servers.master, Addresses: c.servers.addresses, Username: c.servers.user, Password: c.servers.password,
		LoginBy: "WithSentinelLogin", Map: c.servers.mapping, Servers: &c.Config,
	})
	return newRoutedClient(c, s.Topology())
}

// NewClientCluster returns a client of the Redis Cluster to which the servers
// at the addresses belong. An address is host:port. One that answers is enough:
// the servers name each other. The password may be empty. NewClientCluster
// makes no network call. It returns all mistakes in the settings in one error,
// which matches [ErrInvalid].
//
// A lock is at the master of the slot of its key, with its queue and its
// messages. If the slot moves to another master, holds and waiters continue
// there. After a failover they do too, if the lock was replicated. Redis
// replicates asynchronously, so a failover may lose a lock: use [WithReplicas]
// for all replicas of each master.
//
// All options apply to the connections to all servers, and those of a pool,
// such as [WithMaxActive], to each server. A Cluster has database 0 only. With
// [WithTLS] each server needs a certificate for the host that it is named by,
// unless the config has a server name.
//
// A [MultiLock] asks for keys of several slots together, and waits for one
// after another. [Client.Eval] uses the server of its first key.
func NewClientCluster(addresses []string, password string, opts ...ClientOption) (*Client, error) {
	c := newClientConfig(opts)
	*c.Password = password
	c.servers.addresses = addresses
	return newClusterClient(c, nil)
}

func newClusterClient(c *clientConfig, m lockspec.Problems) (*Client, error) {
	if len(m) == 0 { // see newOwnClient
		c.checkAddresses("addresses", &m)
	}
	m.Check(!c.has("WithSentinelLogin"), "WithSentinelLogin: needs NewClientSentinel")
	m.Check(c.Database <= 0, "database: a Cluster has only 0")
	c.checkConnection(&m)
	c.check(&m)
	if err := m.Err(); err != nil {
		return nil, wrap("new client", "", err)
	}
	t := cluster.New(cluster.Config{
		Addresses: c.servers.addresses, Map: c.servers.mapping, Servers: &c.Config,
	})
	return newRoutedClient(c, t.Topology())
}

// WithSentinelLogin sets the user and the password of connections to sentinels.
// An empty user is the default user. The password must not be empty. By default
// the client does not log in to sentinels. It needs [NewClientSentinel].
func WithSentinelLogin(user, password string) ClientOption {
	return ownPool("WithSentinelLogin", func(c *clientConfig) { c.servers.user, c.servers.password = user, &password })
}

// WithAddressMap sets a function that returns the address to use for one that a
// sentinel or a server of a Cluster names, host:port. Use it if the servers
// know themselves by other addresses than the client does, as behind NAT. It
// may be called concurrently, must return immediately, and must not be nil. It
// needs [NewClientSentinel] or [NewClientCluster].
func WithAddressMap(f func(address string) string) ClientOption {
	return ownPool("WithAddressMap", func(c *clientConfig) { c.servers.mapping = f })
}

// checkAddresses reports the mistakes in what is needed to ask for servers.
func (c *clientConfig) checkAddresses(name string, m *lockspec.Problems) {
	m.Check(len(c.servers.addresses) > 0, "%s: none is given", name)
	for i, address := range c.servers.addresses {
		var one lockspec.Problems
		checkAddress(&one, "tcp", address)
		for _, mistake := range one {
			m.Check(false, "%s[%d]: %s", name, i, mistake)
		}
	}
	m.Check(c.servers.mapping != nil || !c.has("WithAddressMap"), "WithAddressMap: is nil")
}

// checkAsksNone reports the options of which only a client that asks for its
// servers can make use.
func (c *clientConfig) checkAsksNone(m *lockspec.Problems) {
	m.Check(!c.has("WithSentinelLogin"), "WithSentinelLogin: needs NewClientSentinel")
	m.Check(!c.has("WithAddressMap"), "WithAddressMap: needs NewClientSentinel or NewClientCluster")
}

// has reports whether an option of connections was given.
func (c *clientConfig) has(name string) bool { return slices.Contains(c.given, name) }

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
	// memory, unless there is a Cached.
	Master func(ctx context.Context, key string) (address string, err error)

	// Cached returns what Master would, if that is in memory. Then Master is
	// not called, and the request costs no context with a limit. It must return
	// immediately. It is optional.
	Cached func(key string) (address string, known bool)

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

	// Redirect is called if the server at from answers that another one takes
	// requests for a key. It returns the address to send the request to. With
	// MOVED, once is false: the server at to has the key from now on, and
	// Master should return it. With ASK, once is true: only this request goes
	// there. The address in to is host:port, as the server named it. Its host
	// is empty if it is the host of from.
	//
	// It must return immediately. It is optional: without it, the request is
	// sent to that address. At most 5 redirects of a request follow each other.
	Redirect func(key, from, to string, once bool) (address string)

	// Sharded reports that messages about a lock go to a sharded channel in the
	// slot of the lock. They are sent by SPUBLISH, which a server has since
	// Redis 7.0. Without it, they go to one channel of the client.
	Sharded bool

	// Invalidate is called if a server does not answer, takes no writes, or
	// redirects a request by MOVED. It must return immediately. It is optional.
	Invalidate func(address string)

	// Refresh looks for the servers, and returns when a look that began after
	// the call has ended, or when ctx ends. Master then returns what it found.
	// It is optional. With it, a request that surely was not executed waits for
	// a look, and goes on at the server that Master names then. It is also
	// called beside a request to a server that has not answered for 5 s.
	Refresh func(ctx context.Context) error

	// Changes has a value if masters have changed. Then the connections to
	// servers that are not among Masters are closed, and all waiters check. It
	// is optional.
	Changes <-chan struct{}

	// LogTo is called once by [NewClientTopology], with the logger of the
	// client, see [WithLogger]. It is optional.
	LogTo func(logger *slog.Logger)

	// Close is called by [Client.Close]. It is optional.
	Close func() error
}

// NewClientTopology returns a client of the servers of t. It is experimental
// until 1.0. It calls no function of t, except LogTo. The options of a pool,
// such as [WithMaxActive], are those of each server.
//
// A [MultiLock] asks all servers of its keys together, and waits for one key
// after another. [Client.Eval] uses the server of its first key.
func NewClientTopology(t Topology, opts ...ClientOption) (*Client, error) {
	var m lockspec.Problems
	c := newClientConfig(opts)
	m.Check(t.Master != nil, "topology: has no Master")
	m.Check(t.Masters != nil, "topology: has no Masters")
	m.Check(t.Dial == nil || !c.has("WithDialer"), "WithDialer: the topology has a Dial; with go-redis, set Dialer of its client")
	m.Check(t.Dial == nil || !c.UseTLS, "WithTLS: the topology has a Dial, which encrypts; with go-redis, set TLSConfig of its client")
	m.Check(t.Login == nil || c.Login == nil && c.Username == "", "topology: Login beside WithCredentials or WithUsername")
	c.checkAsksNone(&m)
	c.checkConnection(&m)
	c.check(&m)
	if err := m.Err(); err != nil {
		return nil, wrap("new client", "", err)
	}
	return newRoutedClient(c, (*driver.Topology)(&t))
}

// newRoutedClient returns a client of the servers of t.
func newRoutedClient(c *clientConfig, t *driver.Topology) (*Client, error) {
	if t.LogTo != nil {
		t.LogTo(c.logger)
	}
	router := routes.NewRouter(&c.Config, t)
	client, err := newClient(c, router, router.Sharded())
	if err == nil {
		router.Watch(client.engine.NodesChanged)
	}
	return client, err
}

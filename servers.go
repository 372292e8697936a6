package relock

import (
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
// sentinel or a server of a Cluster names, host:port. Use it if servers name
// addresses that the client cannot reach, as behind NAT. It may be called
// concurrently, must return immediately, and must not be nil. It needs
// [NewClientSentinel] or [NewClientCluster].
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

// newTopologyClient returns a client of the servers of t. It calls no function
// of t, except LogTo.
func newTopologyClient(t *driver.Topology, opts []ClientOption) (*Client, error) {
	var m lockspec.Problems
	c := newClientConfig(opts)
	m.Check(t.Master != nil, "topology: has no Master")
	m.Check(t.Masters != nil, "topology: has no Masters")
	m.Check(t.Dial == nil || !c.has("WithDialer"),
		"WithDialer: the topology has a Dial; with go-redis, set Dialer of its client")
	m.Check(t.Dial == nil || !c.UseTLS,
		"WithTLS: the topology has a Dial, which encrypts; with go-redis, set TLSConfig of its client")
	m.Check(t.Login == nil || c.Login == nil && c.Username == "", "topology: Login beside WithCredentials or WithUsername")
	c.checkAsksNone(&m)
	c.checkConnection(&m)
	c.check(&m)
	if err := m.Err(); err != nil {
		return nil, wrap("new client", "", err)
	}
	return newRoutedClient(c, t)
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

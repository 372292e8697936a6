package relock

import (
	"slices"

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

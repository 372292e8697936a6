package goredis

import (
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/sentinel"
)

// NewClientSentinel returns a client of the master that Sentinels name. It
// takes the options of redis.NewFailoverClient, because a client of go-redis
// does not show them. It asks the Sentinels and listens to them as
// [relock.NewClientSentinel] does: after a failover, both use the new master
// equally soon. A failover may lose a lock: use [relock.WithReplicas] for all
// replicas.
//
// It uses MasterName, SentinelAddrs, SentinelUsername, SentinelPassword, DB,
// Dialer, TLSConfig, and the credentials, in the order of [NewClient]. A Dialer
// connects to Sentinels and to servers, and must encrypt if that is wanted. It
// may decide by the address.
// DialTimeout limits the wait for a Sentinel. Every other field has no effect,
// except ReplicaOnly, which is [relock.ErrInvalid].
//
// NewClientSentinel makes no network call. The client does not need rdb, and o
// must not change. Options override DB, and set up the connections to each
// server. [relock.WithDialer], [relock.WithTLS], [relock.WithUsername] and
// [relock.WithCredentials] are [relock.ErrInvalid], because o has them.
func NewClientSentinel(o *redis.FailoverOptions, opts ...relock.ClientOption) (*relock.Client, error) {
	if err := refusalOfSentinels(o); err != nil {
		return nil, &relock.Error{Op: "new client", Err: err}
	}
	return clientOf(topologyOfSentinels(o), o.DB, opts)
}

// refusalOfSentinels returns the mistakes in the options in one error, or nil.
func refusalOfSentinels(o *redis.FailoverOptions) error {
	if o == nil {
		return fmt.Errorf("%w: options: are nil", relock.ErrInvalid)
	}
	var m lockspec.Problems
	m.Check(o.MasterName != "", "MasterName: is empty")
	m.Check(len(o.SentinelAddrs) > 0, "SentinelAddrs: none is given")
	for i, address := range o.SentinelAddrs {
		_, _, err := net.SplitHostPort(address)
		m.Check(err == nil, "SentinelAddrs[%d]: is not host:port", i) // it may be a URL with a password
	}
	m.Check(!o.ReplicaOnly, "ReplicaOnly: is set, and replicas grant no locks")
	return m.Err()
}

// topologyOfSentinels returns the master that Sentinels name.
func topologyOfSentinels(o *redis.FailoverOptions) *driver.Topology {
	a := &access{dial: dialerOf(o.Dialer, o.TLSConfig), timeout: o.DialTimeout}
	a.login, a.logout = loginOf(optionsOf(*o))
	s := sentinel.New(sentinel.Config{
		Name: o.MasterName, Addresses: o.SentinelAddrs, Username: o.SentinelUsername, Password: &o.SentinelPassword,
		LoginBy: "SentinelUsername and SentinelPassword", Servers: a.config(),
	})
	return a.to(s.Topology())
}

// optionsOf returns the options of a client with these options. Only go-redis
// knows them in all its versions: v9.9.0 has no providers of credentials here.
func optionsOf(o redis.FailoverOptions) *redis.Options {
	o.MinIdleConns, o.RouteByLatency, o.RouteRandomly = 0, false, false // which would connect, and panic
	rdb := redis.NewFailoverClient(&o)
	defer rdb.Close() //nolint:errcheck // it has no connection
	return rdb.Options()
}

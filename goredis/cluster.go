package goredis

import (
	"context"
	"fmt"
	"net"
	"reflect"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/cluster"
	"github.com/relock-go/relock/internal/redis/driver"
)

// topologyOfCluster returns the masters of the slots.
func topologyOfCluster(o *redis.ClusterOptions) (*driver.Topology, error) {
	if err := refusalOf(o); err != nil {
		return nil, err
	}
	a := &access{dial: dialerOfCluster(o), timeout: o.DialTimeout}
	a.login, a.logout = loginOf(&redis.Options{
		Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
		CredentialsProviderContext:   o.CredentialsProviderContext,
		StreamingCredentialsProvider: o.StreamingCredentialsProvider,
	})
	c := cluster.New(cluster.Config{Addresses: o.Addrs, Servers: a.config(), SlotsOnly: true})
	return a.to(c.Topology()), nil
}

// refusalOf returns what keeps a Cluster's client from being supported, or nil.
func refusalOf(o *redis.ClusterOptions) error {
	switch {
	case o.ClusterSlots != nil:
		return fmt.Errorf("%w: rdb: has ClusterSlots, and servers that are no Cluster serve keys of others, "+
			"so a lock can have two holders; use goredis.NewClientSentinel", relock.ErrInvalid)
	case len(o.Addrs) == 0:
		return fmt.Errorf("%w: rdb: has no Addrs", relock.ErrInvalid)
	}
	return nil
}

// dialerOfCluster returns how to connect to a server. NewClient may be the
// user's, and change that. That of go-redis looks up names, which takes time.
func dialerOfCluster(o *redis.ClusterOptions) dialFunc {
	if reflect.ValueOf(o.NewClient).Pointer() == reflect.ValueOf(redis.NewClient).Pointer() {
		return dialerOf(o.Dialer, o.TLSConfig)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		node := o.NewClient(&redis.Options{
			Addr: address, Network: network, Dialer: o.Dialer, DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig,
			Protocol: 2, // nothing to listen to
		})
		defer node.Close() //nolint:errcheck // it has no connection
		one := node.Options()
		return one.Dialer(ctx, one.Network, one.Addr)
	}
}

package goredis

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/driver"
)

// NewClient returns a client of the servers of rdb. That is a *redis.Client of
// one server (redis.NewClient), or a *redis.ClusterClient
// (redis.NewClusterClient). Options override the database of rdb, and set up
// the connections to each server. [relock.WithDialer], [relock.WithTLS],
// [relock.WithUsername] and [relock.WithCredentials] are [relock.ErrInvalid],
// because rdb has them.
//
// NewClient makes no network call. It takes the options of rdb, which must not
// change, and does not use rdb itself. So they may be closed in any order.
//
// Credentials come from the StreamingCredentialsProvider, or else from the
// CredentialsProviderContext, the CredentialsProvider, or the options, as in
// go-redis. They apply to new connections, see [relock.WithCredentials].
//
// On a Cluster, the client loads the table of the slots itself, as
// [relock.NewClientCluster] does, and follows redirects. It has database 0
// only. The NewClient of redis.ClusterOptions applies to addresses, TLS and
// dialers.
//
// A client of Sentinels (redis.NewFailoverClient) is [relock.ErrInvalid], since
// it does not say which Sentinels: its dialer does not report a new master, and
// a client that stays at the old one gives a lock two holders. Use
// [NewClientSentinel] with its options.
//
// A *redis.Ring is [relock.ErrInvalid]: processes that disagree about a dead
// shard use different servers for one lock, which then has two holders. A
// *redis.ClusterClient with ClusterSlots, as of redis.NewFailoverClusterClient,
// is [relock.ErrInvalid], too: servers that are no Cluster serve keys of
// others. Other implementations do not say how they connect.
func NewClient(rdb redis.UniversalClient, opts ...relock.ClientOption) (*relock.Client, error) {
	t, db, err := serversOf(rdb)
	if err != nil {
		return nil, &relock.Error{Op: "new client", Err: err}
	}
	return clientOf(t, db, opts)
}

// serversOf returns the servers of rdb and its database, or why it is not
// supported.
func serversOf(rdb redis.UniversalClient) (t *driver.Topology, db int, err error) {
	switch c := rdb.(type) {
	case *redis.Client:
		if c != nil {
			t, err = topologyOfServer(c.Options())
			return t, c.Options().DB, err
		}
	case *redis.ClusterClient:
		if c != nil {
			t, err = topologyOfCluster(c.Options())
			return t, 0, err
		}
	case nil:
	case *redis.Ring:
		return t, 0, fmt.Errorf("%w: rdb: is a *redis.Ring, whose clients can disagree about a dead shard, "+
			"so a lock can have two holders; use a server, Sentinels, a Cluster, or relock.NewRedLock", relock.ErrInvalid)
	default:
		return t, 0, fmt.Errorf("%w: rdb: is a %T, and only a *redis.Client and a *redis.ClusterClient are supported",
			relock.ErrInvalid, rdb)
	}
	return t, 0, fmt.Errorf("%w: rdb: is nil", relock.ErrInvalid)
}

// addrOfFailover is the address that go-redis gives to a client of Sentinels.
const addrOfFailover = "FailoverClient"

// topologyOfServer returns a topology in which one server has all keys.
func topologyOfServer(o *redis.Options) (*driver.Topology, error) {
	if o.Addr == addrOfFailover {
		return nil, fmt.Errorf("%w: rdb: is a client of Sentinels, which it does not name; "+
			"use goredis.NewClientSentinel with its *redis.FailoverOptions", relock.ErrInvalid)
	}
	login, logout := loginOf(o)
	return &driver.Topology{
		Master:  func(context.Context, string) (string, error) { return o.Addr, nil },
		Cached:  func(string) (address string, known bool) { return o.Addr, true },
		Masters: func(context.Context) ([]string, error) { return []string{o.Addr}, nil },
		Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			return o.Dialer(ctx, o.Network, o.Addr)
		},
		Login: login, Close: logout,
	}, nil
}

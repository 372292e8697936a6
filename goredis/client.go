package goredis

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock"
)

// NewClient returns a client of the servers of rdb, which is a *redis.Client:
// of one server (redis.NewClient), or of Sentinels (redis.NewFailoverClient).
// Options override the database of rdb, and set up the connections to each
// server. [relock.WithDialer], [relock.WithTLS], [relock.WithUsername] and
// [relock.WithCredentials] are [relock.ErrInvalid], because rdb has them.
//
// NewClient makes no network call. Close the client before rdb, which it does
// not close. The options of rdb must not change.
//
// Credentials come from the StreamingCredentialsProvider, or else from the
// CredentialsProviderContext, the CredentialsProvider, or the options, as in
// go-redis. They apply to new connections, see [relock.WithCredentials].
//
// A client of Sentinels asks the dialer of rdb for the current master: before
// the first request, every 10 s, and several times a second if a server fails.
// The address of each connection names its server. So a dialer that connects
// through a proxy delays the notice of a new master.
//
// A *redis.ClusterClient is [relock.ErrInvalid] until relock supports Clusters.
// So is a *redis.Ring: processes that disagree about a dead shard use different
// servers for one lock, which then has two holders. Other implementations do
// not say how they connect.
func NewClient(rdb redis.UniversalClient, opts ...relock.ClientOption) (*relock.Client, error) {
	client, ok := rdb.(*redis.Client)
	if !ok || client == nil {
		return nil, &relock.Error{Op: "new client", Err: refusal(rdb)}
	}
	o := client.Options()
	t := topologyOf(o)
	return relock.NewClientTopology(t, append([]relock.ClientOption{relock.WithDatabase(o.DB)}, opts...)...)
}

// refusal returns why rdb is not supported.
func refusal(rdb redis.UniversalClient) error {
	switch rdb.(type) {
	case nil, *redis.Client:
		return fmt.Errorf("%w: rdb: is nil", relock.ErrInvalid)
	case *redis.ClusterClient:
		return fmt.Errorf("%w: rdb: is a *redis.ClusterClient, and relock does not support Clusters yet", relock.ErrInvalid)
	case *redis.Ring:
		return fmt.Errorf("%w: rdb: is a *redis.Ring, whose clients can disagree about a dead shard, "+
			"so a lock can have two holders; use a server, Sentinels, or relock.NewRedLock", relock.ErrInvalid)
	}
	return fmt.Errorf("%w: rdb: is a %T, and only a *redis.Client is supported", relock.ErrInvalid, rdb)
}

// addrOfFailover is the address that go-redis gives to a client of Sentinels.
const addrOfFailover = "FailoverClient"

// topologyOf returns the servers of a client with these options.
func topologyOf(o *redis.Options) relock.Topology {
	login, logout := loginOf(o)
	if o.Addr != addrOfFailover {
		t := oneServer(o)
		t.Login, t.Close = login, logout
		return t
	}
	f := newFailover(func(ctx context.Context) (net.Conn, error) { return o.Dialer(ctx, o.Network, o.Addr) })
	return relock.Topology{
		Master: f.master, Masters: f.masters, Dial: f.dial, Login: login, Invalidate: f.invalidate, Changes: f.changes,
		Close: func() error {
			f.close()
			return logout()
		},
	}
}

// oneServer returns a topology in which one server has all keys.
func oneServer(o *redis.Options) relock.Topology {
	return relock.Topology{
		Master:  func(context.Context, string) (string, error) { return o.Addr, nil },
		Masters: func(context.Context) ([]string, error) { return []string{o.Addr}, nil },
		Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			return o.Dialer(ctx, o.Network, o.Addr)
		},
	}
}

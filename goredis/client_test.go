package goredis_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/goredis"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// newClient returns a client over rdb. Both are closed when the test ends, and
// rdb must work until then.
func newClient(t testing.TB, rdb redis.UniversalClient, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	t.Cleanup(func() {
		require.NoError(t, rdb.Ping(context.WithoutCancel(t.Context())).Err(), "rdb was closed with the client")
		require.NoError(t, rdb.Close())
	})
	return newClientOnly(t, rdb, opts...)
}

// newClientOnly returns a client over rdb, which stays open.
func newClientOnly(t testing.TB, rdb redis.UniversalClient, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return locktest.CloseLater(t)(goredis.NewClient(rdb, opts...))
}

// changed returns a client of go-redis with changed options. It is closed when
// the test ends.
func changed[O any, C redis.UniversalClient](t testing.TB, of func(*O) C, o *O, changes []func(*O)) C {
	for _, f := range changes {
		f(o)
	}
	rdb := of(o)
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	return rdb
}

// clientsOver returns a function that makes clients with the same prefix, each
// over another client of go-redis.
func clientsOver(t testing.TB, newRDB func() redis.UniversalClient) func() *relock.Client {
	prefix := relock.WithKeyPrefix("test:" + uuid.NewString() + ":")
	return func() *relock.Client { return newClientOnly(t, newRDB(), prefix) }
}

type wrapped struct{ redis.UniversalClient }

func TestRefused(t *testing.T) {
	t.Parallel()
	var none *redis.Client
	one := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	var noCluster *redis.ClusterClient
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	unknown := redis.NewClusterClient(&redis.ClusterOptions{})
	sentinels := redis.NewFailoverClusterClient(&redis.FailoverOptions{
		MasterName: "main", SentinelAddrs: []string{"127.0.0.1:1"},
	})
	failover := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{"127.0.0.1:1"}})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() {
		require.NoError(t, one.Close())
		require.NoError(t, cluster.Close())
		require.NoError(t, unknown.Close())
		require.NoError(t, sentinels.Close())
		require.NoError(t, failover.Close())
		require.NoError(t, ring.Close())
	})
	login := func(context.Context) (user, password string, err error) { return "", "", nil }
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	for _, tt := range []struct {
		rdb   redis.UniversalClient
		opts  []relock.ClientOption
		names string
	}{
		{nil, nil, "rdb: is nil"},
		{none, nil, "rdb: is nil"},
		{noCluster, nil, "rdb: is nil"},
		{unknown, nil, "rdb: has no Addrs"},
		{sentinels, nil, "rdb: has ClusterSlots"},
		{failover, nil, "goredis.NewClientSentinel with its *redis.FailoverOptions"},
		{cluster, []relock.ClientOption{relock.WithUsername("app")}, "WithUsername"},
		{cluster, []relock.ClientOption{relock.WithDialer(dial)}, "WithDialer"},
		{ring, nil, "can disagree about a dead shard"},
		{wrapped{one}, nil, "goredis_test.wrapped"},
		{one, []relock.ClientOption{relock.WithUsername("app")}, "WithUsername"},
		{one, []relock.ClientOption{relock.WithCredentials(login)}, "WithCredentials"},
		{one, []relock.ClientOption{relock.WithDialer(dial)}, "WithDialer"},
		{one, []relock.ClientOption{relock.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12})}, "WithTLS"},
	} {
		_, err := goredis.NewClient(tt.rdb, tt.opts...)
		require.ErrorIs(t, err, relock.ErrInvalid)
		var whole *relock.Error
		require.ErrorAs(t, err, &whole)
		require.Equal(t, "new client", whole.Op)
		require.ErrorContains(t, err, tt.names)
	}
}

// A socket, a dialer and the database of rdb are used, and an option chooses
// another database.
func TestOptionsOfTheUser(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var dialled []string
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = append(dialled, network+" "+address)
		return (&net.Dialer{}).DialContext(ctx, s.Network, s.Address)
	}
	for _, tt := range []struct {
		options *redis.Options
		opts    []relock.ClientOption
		db      int
	}{
		{&redis.Options{Addr: s.Address}, nil, 0},
		{&redis.Options{Addr: s.Address, DB: 3}, nil, 3},
		{&redis.Options{Addr: s.Address, DB: 3}, []relock.ClientOption{relock.WithDatabase(4)}, 4},
		{&redis.Options{Addr: "far:1", Dialer: dial, DB: 5, MaxRetries: -1}, nil, 5},
	} {
		c := newClient(t, redis.NewClient(tt.options), tt.opts...)
		hold, err := relock.NewRedisLock("name", c).Acquire(t.Context())
		require.NoError(t, err)
		conn := s.Dial(t)
		_, err = conn.Do("SELECT", tt.db)
		require.NoError(t, err)
		found, err := conn.Do("EXISTS", "relock:{name}")
		require.NoError(t, err)
		require.Equal(t, int64(1), found, "it is not in database %d", tt.db)
		require.NoError(t, conn.Close())
		require.NoError(t, hold.Unlock(t.Context()))
	}
	require.Contains(t, dialled, "tcp far:1")
}

package goredis_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// connector makes clients of relock over go-redis, by a dialer if it is not
// nil.
type connector func(t testing.TB, dial dialer, opts ...relock.ClientOption) *relock.Client

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Every kind of lock keeps the promises of all over a client of one server.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	conformAll(t, true,
		over(locktest.ConformServers{}.At(s), func(t testing.TB, dial dialer, opts ...relock.ClientOption) *relock.Client {
			rdb := redis.NewClient(&redis.Options{Addr: s.Address, Dialer: dial})
			t.Cleanup(func() { require.NoError(t, rdb.Close()) })
			return newClientOnly(t, rdb, opts...)
		}))
}

// It does so over Sentinels. Only the connections differ, so some
// modes are enough for every day.
func TestConformanceOverSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, 20*time.Second) // a machine that stalls is no failover
	conformAll(t, locktest.FullLength(), over(locktest.ConformServers{}.At(s.Servers[0]),
		func(t testing.TB, dial dialer, opts ...relock.ClientOption) *relock.Client {
			return newClientOfSentinels(t, failoverOptions(s, func(o *redis.FailoverOptions) { o.Dialer = dial }), opts...)
		}))
}

// It does so over a client of a Cluster.
func TestConformanceOverCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	conformAll(t, locktest.FullLength(), func() locktest.ConformServers {
		s := over(locktest.ConformServers{
			All: c.Masters(t),
		}, func(t testing.TB, dial dialer, opts ...relock.ClientOption) *relock.Client {
			rdb := clusterClient(t, c, func(o *redis.ClusterOptions) { o.Dialer, o.Protocol = dial, 2 }) // that proxies know
			return newClientOnly(t, rdb, opts...)
		})()
		s.Of = func(key string) *redistest.Server { return c.MasterOf(t, s.Key(key)) }
		return s
	})
}

func conformAll(t *testing.T, whole bool, newServers func() locktest.ConformServers) {
	for name, k := range locktest.ConformKinds() {
		modes := k.Few
		if whole {
			modes = []string{"unfair", "fair", "fenced"}
		}
		for _, mode := range modes {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				k.Run(t, newServers(), mode)
			})
		}
	}
}

// over returns a function that returns the servers with a new prefix, and
// clients of them over go-redis.
func over(s locktest.ConformServers, connect connector) func() locktest.ConformServers {
	return func() locktest.ConformServers {
		s := s // the tests of all kinds run side by side
		s.Prefix = locktest.NewConformPrefix()
		prefix := relock.WithKeyPrefix(s.Prefix)
		s.Client = func(t *testing.T, opts ...relock.ClientOption) *relock.Client {
			return connect(t, nil, append(opts, prefix)...)
		}
		s.Behind = func(t *testing.T, p locktest.ConformProxies, opts ...relock.ClientOption) *relock.Client {
			return connect(t, through(p), append(opts, prefix)...)
		}
		return s
	}
}

// through returns a dialer that connects to a server through its proxy, and to
// others directly.
func through(p locktest.ConformProxies) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if proxy := p[address]; proxy != nil {
			address = proxy.Address
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
}

package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// New connections hang, or are accepted and then silent, and callers keep the
// open ones busy. Each hold is renewed over these, nearly all in time.
func TestHoldsOutliveHungDials(t *testing.T) {
	t.Parallel()
	type network = locktest.HungDials
	type client = func(...relock.ClientOption) *relock.Client
	testkit.Each(t, map[string]locktest.OnHungDials{
		"one server": func(t testing.TB) (*network, client) {
			s := redistest.StartTCP(t)
			d := locktest.NewHungDials(t, s)
			return d, func(opts ...relock.ClientOption) *relock.Client {
				rdb := redis.NewClient(&redis.Options{Addr: s.Address, Dialer: d.Dial})
				t.Cleanup(func() { _ = rdb.Close() })
				return newClientOnly(t, rdb, opts...)
			}
		},
		"Sentinel": func(t testing.TB) (*network, client) {
			s := redistest.StartSentinels(t, redistest.NoFailover)
			d := locktest.NewHungDials(t, s.Servers...)
			return d, func(opts ...relock.ClientOption) *relock.Client {
				o := failoverOptions(s)
				o.Dialer = d.Dial
				return newClientOfSentinels(t, o, opts...)
			}
		},
		"Cluster": func(t testing.TB) (*network, client) {
			s := redistest.StartCluster(t, 3, 0)
			d := locktest.NewHungDials(t, s.Servers...)
			return d, func(opts ...relock.ClientOption) *relock.Client {
				options := &redis.ClusterOptions{Addrs: s.Addresses(), Dialer: d.Dial}
				rdb := redis.NewClusterClient(options)
				t.Cleanup(func() { _ = rdb.Close() })
				return newClientOnly(t, rdb, opts...)
			}
		},
	}, func(t *testing.T, _ string, start locktest.OnHungDials) { start.Check(t) })
}

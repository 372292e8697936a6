package goredis_test

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/relocktest/conform"
)

// testLease is short, since tests wait for its end, and long enough for a busy
// machine.
const testLease = time.Second

// connector makes clients of go-redis, by a dialer if it is not nil.
type connector func(t testing.TB, dial dialer) redis.UniversalClient

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// kindOfLock is a kind of lock behind the interface that the suite knows.
type kindOfLock func(key string) lock

type lock interface {
	Acquire(ctx context.Context) (relock.Hold, error)
	TryAcquire(ctx context.Context) (relock.Hold, error)
}

func (k kindOfLock) Lock(ctx context.Context, key string) (relock.Hold, error) {
	return k(key).Acquire(ctx)
}

func (k kindOfLock) TryLock(ctx context.Context, key string) (relock.Hold, error) {
	return k(key).TryAcquire(ctx)
}

type kind struct {
	few       string // the mode of a short run
	reentrant bool
	refuses   bool
	locker    func(t testing.TB, c *relock.Client, opts ...relock.LockOption) relock.Locker
}

var kinds = map[string]kind{
	"Locker": {"fair", false, false, func(t testing.TB, c *relock.Client, opts ...relock.LockOption) relock.Locker {
		l, err := relock.NewLocker(c, opts...)
		require.NoError(t, err)
		return l
	}},
	"RedisLock": {"unfair", false, true, func(_ testing.TB, c *relock.Client, opts ...relock.LockOption) relock.Locker {
		return kindOfLock(func(key string) lock { return relock.NewRedisLock(key, c, opts...) })
	}},
	"ReentrantLock": {"fenced", true, false, func(_ testing.TB, c *relock.Client, opts ...relock.LockOption) relock.Locker {
		return kindOfLock(func(key string) lock { return relock.NewReentrantLock(key, c, opts...) })
	}},
	"RWLock": {"fair", true, false, func(_ testing.TB, c *relock.Client, opts ...relock.LockOption) relock.Locker {
		return kindOfLock(func(key string) lock { return relock.NewRWLock(key, c, opts...) })
	}},
}

// Every kind of lock keeps the promises of all over a client of one server.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	conformAll(t, s, true, func(t testing.TB, dial dialer) redis.UniversalClient {
		rdb := redis.NewClient(&redis.Options{Addr: s.Address, Dialer: dial})
		t.Cleanup(func() { require.NoError(t, rdb.Close()) })
		return rdb
	})
}

// It does so over a client of Sentinels. Only the connections differ, so a mode
// of each kind is enough for every day.
func TestConformanceOverSentinels(t *testing.T) {
	t.Parallel()
	s := startSentinels(t)
	conformAll(t, s.master, os.Getenv("RELOCK_CELLS") == "all", func(t testing.TB, dial dialer) redis.UniversalClient {
		return s.client(t, func(o *redis.FailoverOptions) { o.Dialer = dial })
	})
}

func conformAll(t *testing.T, s *redistest.Server, whole bool, connect connector) {
	for name, k := range kinds {
		for mode, opts := range map[string][]relock.LockOption{
			"unfair": nil, "fair": {relock.WithFair()}, "fenced": {relock.WithFencing()},
		} {
			if !whole && mode != k.few {
				continue
			}
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				opts := append([]relock.LockOption{relock.WithWatchdog(testLease)}, opts...)
				conform.Run(t, backendOf(k, mode, s, connect, opts))
			})
		}
	}
}

func backendOf(k kind, mode string, s *redistest.Server, connect connector, opts []relock.LockOption) conform.Backend {
	prefix := "conform:" + uuid.NewString() + ":"
	if k.refuses || k.reentrant {
		opts = append(opts, relock.WithBlock())
	}
	return conform.Backend{
		New: func(t *testing.T) relock.Locker {
			return k.locker(t, newClientOnly(t, connect(t, nil), relock.WithKeyPrefix(prefix)), opts...)
		},
		Lease: testLease, Fair: mode == "fair", Fenced: mode == "fenced", Reentrant: k.reentrant, Refuses: k.refuses,
		Faulty: func(t *testing.T) relock.Locker {
			rdb := connect(t, throughFaults(t, s))
			c := newClientOnly(t, rdb, relock.WithKeyPrefix(prefix), relock.WithCommandTimeout(testLease/5))
			return k.locker(t, c, opts...)
		},
		Break: func(t *testing.T, key string) { s.Do(t, "DEL", prefix+"{"+key+"}") },
		Waiting: func(t *testing.T, key string) int {
			n, err := redigo.Int(s.Do(t, "ZCARD", prefix+"{"+key+"}:q"), nil)
			require.NoError(t, err)
			return n
		},
		Left: func(t *testing.T, key string) (left []string) {
			for _, part := range []string{"", ":q", ":h", ":w"} { // heartbeats expire
				if name := prefix + "{" + key + "}" + part; s.Do(t, "EXISTS", name) == int64(1) {
					left = append(left, name)
				}
			}
			return left
		},
	}
}

// throughFaults returns a dialer that connects to the server through a proxy
// that loses, delays and doubles one message in a hundred each. It connects to
// Sentinels directly.
func throughFaults(t testing.TB, s *redistest.Server) dialer {
	proxy := faults.Start(t, s.Network, s.Address)
	seldom := func([]string) bool { return rand.IntN(100) == 0 }
	for _, action := range []faults.Action{
		faults.DropRequest, faults.DropAnswer, faults.CutBefore, faults.CutAfter, faults.Double,
		faults.Delay(testLease / 10), faults.DelayRequest(testLease / 10),
	} {
		proxy.On(seldom, faults.Every, action)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == s.Address {
			address = proxy.Address
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
}

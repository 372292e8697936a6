package conform_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/relocktest/conform"
)

func TestMain(m *testing.M) {
	redistest.Overlap()
	goleak.VerifyTestMain(m)
}

// testLease is short, since tests wait for its end, and long enough for a busy
// machine.
const testLease = time.Second

// server is a server whose locks the suite inspects.
type server struct {
	*redistest.Server
	prefix    string
	sentinels *redistest.Sentinels // that name it, or nil
}

func newServer(t *testing.T) *server {
	return &server{redistest.Start(t), newPrefix(), nil}
}

func newPrefix() string { return "conform:" + uuid.NewString() + ":" }

func (s *server) client(t *testing.T, network, address string, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c, err := relock.NewClient(network, address, "", append(opts, relock.WithKeyPrefix(s.prefix))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// plain returns a client of the server.
func (s *server) plain(t *testing.T) *relock.Client {
	t.Helper()
	if s.sentinels != nil {
		return s.sentinelClient(t)
	}
	return s.client(t, s.Network, s.Address)
}

// throughFaults returns a client whose messages go through the faulty proxy.
func (s *server) throughFaults(t *testing.T) *relock.Client {
	t.Helper()
	network, address := s.faulty(t)
	short := relock.WithCommandTimeout(testLease / 5)
	if s.sentinels != nil {
		return s.sentinelClient(t, short, relock.WithAddressMap(func(named string) string {
			if named == s.Address {
				return address
			}
			return named
		}))
	}
	return s.client(t, network, address, short)
}

func (s *server) lock(key string) string { return s.prefix + "{" + key + "}" }

func (s *server) breakLock(t *testing.T, key string) { s.Do(t, "DEL", s.lock(key)) }

func (s *server) waiting(t *testing.T, key string) int {
	n, err := redis.Int(s.Do(t, "ZCARD", s.lock(key)+":q"), nil)
	require.NoError(t, err)
	return n
}

// left omits the heartbeats, which expire.
func (s *server) left(t *testing.T, key string) []string {
	var left []string
	for _, name := range []string{s.lock(key), s.lock(key) + ":q", s.lock(key) + ":h", s.lock(key) + ":w"} {
		if s.Do(t, "EXISTS", name) == int64(1) {
			left = append(left, name)
		}
	}
	return left
}

const loading = "LOADING Redis is loading the dataset in memory"

// faulty is the address of a server behind a proxy that loses, delays, doubles
// and falsifies one message in a hundred each.
func (s *server) faulty(t *testing.T) (network, address string) {
	proxy := faults.Start(t, s.Network, s.Address)
	seldom := func([]string) bool { return rand.IntN(100) == 0 }
	for _, action := range []faults.Action{
		faults.DropRequest, faults.DropAnswer, faults.CutBefore, faults.CutAfter, faults.Double,
		faults.Delay(testLease / 10), faults.DelayRequest(testLease / 10), faults.ErrorLine(loading), faults.ExecuteThenError(loading),
	} {
		proxy.On(seldom, faults.Every, action)
	}
	return proxy.Network, proxy.Address
}

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

// Every kind of lock keeps the promises of all, fair and unfair.
func TestConformance(t *testing.T) { conformance(t, newServer) }

// conformance runs the suite with each kind of lock.
func conformance(t *testing.T, newServer func(t *testing.T) *server) {
	type kind struct {
		reentrant bool
		refuses   bool
		locker    func(t *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker
	}
	kinds := map[string]kind{
		"Locker": {false, false, func(t *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
			l, err := relock.NewLocker(c, opts...)
			require.NoError(t, err)
			return l
		}},
		"RedisLock": {false, true, func(_ *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
			return kindOfLock(func(key string) lock { return relock.NewRedisLock(key, c, append(opts, relock.WithBlock())...) })
		}},
		"ReentrantLock": {true, false, func(_ *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
			return kindOfLock(func(key string) lock {
				return relock.NewReentrantLock(key, c, append(opts, relock.WithBlock())...)
			})
		}},
		"RWLock": {true, false, func(_ *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
			return kindOfLock(func(key string) lock { return relock.NewRWLock(key, c, append(opts, relock.WithBlock())...) })
		}},
	}
	for name, k := range kinds {
		for mode, opts := range map[string][]relock.LockOption{
			"unfair": nil, "fair": {relock.WithFair()}, "fenced": {relock.WithFencing()},
		} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				s := newServer(t)
				opts := append([]relock.LockOption{relock.WithWatchdog(testLease)}, opts...)
				conform.Run(t, conform.Backend{
					New:   func(t *testing.T) relock.Locker { return k.locker(t, s.plain(t), opts...) },
					Lease: testLease, Fair: mode == "fair", Fenced: mode == "fenced", Reentrant: k.reentrant, Refuses: k.refuses,
					Faulty: func(t *testing.T) relock.Locker {
						return k.locker(t, s.throughFaults(t), opts...)
					},
					Break: s.breakLock, Waiting: s.waiting, Left: s.left,
				})
			})
		}
	}
}

package conformtest

import (
	"math/rand/v2"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Servers is where the locks are that the suite inspects.
type Servers struct {
	All    []*redistest.Server
	Of     func(key string) *redistest.Server // that has a lock
	Client func(t *testing.T, opts ...relock.ClientOption) *relock.Client
	Behind func(t *testing.T, proxies Proxies, opts ...relock.ClientOption) *relock.Client
	Prefix string
}

// Proxies stand before servers, by the servers' addresses.
type Proxies map[string]*faults.Proxy

// NewPrefix returns a prefix of keys that no other test has.
func NewPrefix() string { return "conform:" + uuid.NewString() + ":" }

// At returns the same with one server, and clients of it.
func (s Servers) At(one *redistest.Server) Servers {
	s.All, s.Of = []*redistest.Server{one}, func(string) *redistest.Server { return one }
	s.Client = func(t *testing.T, opts ...relock.ClientOption) *relock.Client {
		return locktest.NewTestClient(t, one, append(opts, relock.WithKeyPrefix(s.Prefix))...)
	}
	s.Behind = func(t *testing.T, p Proxies, opts ...relock.ClientOption) *relock.Client {
		behind := &redistest.Server{Network: p[one.Address].Network, Address: p[one.Address].Address}
		return locktest.NewTestClient(t, behind, append(opts, relock.WithKeyPrefix(s.Prefix))...)
	}
	return s
}

// Mapped returns a client that the servers' names lead to the proxies.
func (s Servers) Mapped(t *testing.T, p Proxies, opts ...relock.ClientOption) *relock.Client {
	return s.Client(t, append(opts, relock.WithAddressMap(func(named string) string {
		if behind := p[named]; behind != nil {
			return behind.Address
		}
		return named
	}))...)
}

// Plain returns a client of the servers.
func (s Servers) Plain(t *testing.T) *relock.Client { return s.Client(t) }

// ThroughFaults returns a client whose messages go through a faulty proxy of
// each server.
func (s Servers) ThroughFaults(t *testing.T) *relock.Client {
	p := Proxies{}
	for _, one := range s.All {
		p[one.Address] = faulty(t, one)
	}
	return s.Behind(t, p, relock.WithCommandTimeout(Lease/5))
}

const loading = "LOADING Redis is loading the dataset in memory"

// faulty starts a proxy that loses, delays, doubles and falsifies one message
// in a hundred each.
func faulty(t *testing.T, s *redistest.Server) *faults.Proxy {
	proxy := faults.Start(t, s.Network, s.Address)
	seldom := func([]string) bool { return rand.IntN(100) == 0 }
	for _, action := range []faults.Action{
		faults.DropRequest, faults.DropAnswer, faults.CutBefore, faults.CutAfter, faults.Double,
		faults.Delay(Lease / 10), faults.DelayRequest(Lease / 10), faults.ErrorLine(loading), faults.ExecuteThenError(loading),
	} {
		proxy.On(seldom, faults.Every, action)
	}
	return proxy
}

// Key returns the key of a lock.
func (s Servers) Key(key string) string { return s.Prefix + "{" + key + "}" }

// Break deletes a lock.
func (s Servers) Break(t *testing.T, key string) { s.Of(key).Do(t, "DEL", s.Key(key)) }

// Waiting returns how many entries the queue of a lock has.
func (s Servers) Waiting(t *testing.T, key string) int {
	n, err := redis.Int(s.Of(key).Do(t, "ZCARD", s.Key(key)+":q"), nil)
	require.NoError(t, err)
	return n
}

// Left returns the keys of a lock that exist, without the heartbeats, which
// expire.
func (s Servers) Left(t *testing.T, key string) (left []string) {
	for _, name := range []string{s.Key(key), s.Key(key) + ":q", s.Key(key) + ":h", s.Key(key) + ":w"} {
		if s.Of(key).Do(t, "EXISTS", name) == int64(1) {
			left = append(left, name)
		}
	}
	return left
}

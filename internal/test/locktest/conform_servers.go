package locktest

import (
	"math/rand/v2"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
)

// ConformServers is where the locks are that the suite inspects.
type ConformServers struct {
	All    []*redistest.Server
	Of     func(key string) *redistest.Server // that has a lock
	Client func(t *testing.T, opts ...relock.ClientOption) *relock.Client
	Behind func(t *testing.T, proxies ConformProxies, opts ...relock.ClientOption) *relock.Client
	Prefix string
}

// ConformProxies stand before servers, by the servers' addresses.
type ConformProxies map[string]*faults.Proxy

// NewConformPrefix returns a prefix of keys that no other test has.
func NewConformPrefix() string { return "conform:" + uuid.NewString() + ":" }

// At returns the same with one server, and clients of it.
func (s ConformServers) At(one *redistest.Server) ConformServers {
	s.All, s.Of = []*redistest.Server{one}, func(string) *redistest.Server { return one }
	s.Client = func(t *testing.T, opts ...relock.ClientOption) *relock.Client {
		return NewTestClient(t, one, append(opts, relock.WithKeyPrefix(s.Prefix))...)
	}
	s.Behind = func(t *testing.T, p ConformProxies, opts ...relock.ClientOption) *relock.Client {
		behind := &redistest.Server{Network: p[one.Address].Network, Address: p[one.Address].Address}
		return NewTestClient(t, behind, append(opts, relock.WithKeyPrefix(s.Prefix))...)
	}
	return s
}

// Mapped returns a client that the servers' names lead to the proxies.
func (s ConformServers) Mapped(t *testing.T, p ConformProxies, opts ...relock.ClientOption) *relock.Client {
	return s.Client(t, append(opts, relock.WithAddressMap(func(named string) string {
		if behind := p[named]; behind != nil {
			return behind.Address
		}
		return named
	}))...)
}

// Plain returns a client of the servers.
func (s ConformServers) Plain(t *testing.T) *relock.Client { return s.Client(t) }

// ThroughFaults returns a client whose messages go through a faulty proxy of
// each server.
func (s ConformServers) ThroughFaults(t *testing.T) *relock.Client {
	p := ConformProxies{}
	for _, one := range s.All {
		p[one.Address] = faultyProxy(t, one)
	}
	return s.Behind(t, p, relock.WithCommandTimeout(ConformLease/5))
}

const loading = "LOADING Redis is loading the dataset in memory"

// faultyProxy starts a proxy that loses, delays, doubles and falsifies one
// message in a hundred each.
func faultyProxy(t *testing.T, s *redistest.Server) *faults.Proxy {
	proxy := faults.Start(t, s.Network, s.Address)
	seldom := func([]string) bool { return rand.IntN(100) == 0 }
	for _, action := range []faults.Action{
		faults.DropRequest, faults.DropAnswer, faults.CutBefore, faults.CutAfter, faults.Double,
		faults.Delay(ConformLease / 10), faults.DelayRequest(ConformLease / 10), faults.ErrorLine(loading),
		faults.ExecuteThenError(loading),
	} {
		proxy.On(seldom, faults.Every, action)
	}
	return proxy
}

// Key returns the key of a lock.
func (s ConformServers) Key(key string) string { return s.Prefix + "{" + key + "}" }

// Break deletes a lock.
func (s ConformServers) Break(t *testing.T, key string) { s.Of(key).Do(t, "DEL", s.Key(key)) }

// Waiting returns how many entries the queue of a lock has.
func (s ConformServers) Waiting(t *testing.T, key string) int {
	n, err := redis.Int(s.Of(key).Do(t, "ZCARD", s.Key(key)+":q"), nil)
	require.NoError(t, err)
	return n
}

// Left returns the keys of a lock that exist, without the heartbeats, which
// expire.
func (s ConformServers) Left(t *testing.T, key string) (left []string) {
	for _, name := range []string{s.Key(key), s.Key(key) + ":q", s.Key(key) + ":h", s.Key(key) + ":w"} {
		if s.Of(key).Do(t, "EXISTS", name) == int64(1) {
			left = append(left, name)
		}
	}
	return left
}

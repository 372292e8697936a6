package routes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// New connections hang, or are accepted and then silent, and callers keep the
// open ones busy. Each hold is renewed over these, nearly all in time, with one
// server and with several.
func TestHoldsOutliveHungDials(t *testing.T) {
	t.Parallel()
	type network = locktest.HungDials
	type client = func(...relock.ClientOption) *relock.Client
	testkit.Each(t, map[string]locktest.OnHungDials{
		"Sentinel": func(t testing.TB) (*network, client) {
			s := redistest.StartSentinels(t, redistest.NoFailover)
			d := locktest.NewHungDials(t, s.Servers...)
			return d, func(opts ...relock.ClientOption) *relock.Client {
				return locktest.SentinelClient(t, s, append(opts, relock.WithDialer(d.Dial))...)
			}
		},
		"Cluster": func(t testing.TB) (*network, client) {
			s := redistest.StartCluster(t, 3, 0)
			d := locktest.NewHungDials(t, s.Servers...)
			return d, func(opts ...relock.ClientOption) *relock.Client {
				return locktest.ClusterClient(t, s, append(opts, relock.WithDialer(d.Dial))...)
			}
		},
		"one server": func(t testing.TB) (*network, client) {
			s := redistest.StartTCP(t)
			d := locktest.NewHungDials(t, s)
			return d, func(opts ...relock.ClientOption) *relock.Client {
				return locktest.NewTestClient(t, s, append(opts, relock.WithDialer(d.Dial))...)
			}
		},
		"a user's pool": func(t testing.TB) (*network, client) {
			s := redistest.StartTCP(t)
			d := locktest.NewHungDials(t, s)
			return d, func(opts ...relock.ClientOption) *relock.Client {
				pool := &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
					return redis.DialContext(ctx, s.Network, s.Address, redis.DialContextFunc(d.Dial))
				}}
				return locktest.AsUserPool(t, s, pool, opts...)
			}
		},
		"TLS": func(t testing.TB) (*network, client) {
			s, config := encrypted(t)
			d := locktest.NewHungDials(t)
			return d, func(opts ...relock.ClientOption) *relock.Client {
				opts = append(opts, relock.WithDialer(d.Dial), relock.WithTLS(config))
				return locktest.NewTestClient(t, s, opts...)
			}
		},
	}, func(t *testing.T, _ string, start locktest.OnHungDials) { start.Check(t) })
}

// encrypted returns a server that encrypts, and takes a moment for a lock, and
// the settings of its clients.
func encrypted(t testing.TB) (*redistest.Server, *tls.Config) {
	s := redistest.StartTCP(t)
	p := faults.Start(t, s.Network, s.Address)
	p.On(faults.Command("SET"), faults.Every, faults.Delay(locktest.MomentOfALock))
	source := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer source.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(source.Certificate())
	address := locktest.ServerOf(p).Encrypt(t, source.TLS.Certificates)
	config := &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	return &redistest.Server{Network: "tcp", Address: address}, config
}

package routes_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// New connections hang, and callers keep the open ones busy. Each hold is
// renewed over these, nearly all in time, with one server and with several.
func TestHoldsOutliveHungDials(t *testing.T) {
	t.Parallel()
	type network = locktest.HungDials
	type client = func(...relock.ClientOption) *relock.Client
	testkit.Each(t, map[string]func(testing.TB) (*network, client){
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
		"TLS": func(t testing.TB) (*network, client) {
			s, config := encrypted(t)
			d := locktest.NewHungDials(t)
			return d, func(opts ...relock.ClientOption) *relock.Client {
				opts = append(opts, relock.WithDialer(d.Dial), relock.WithTLS(config))
				return locktest.NewTestClient(t, s, opts...)
			}
		},
		"TLS, handshakes hang": func(t testing.TB) (*network, client) {
			s, config := encrypted(t)
			l := redistest.Listen(t)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			d := locktest.NewHungDials(t)
			d.Hole = l.Addr().String()
			return d, func(opts ...relock.ClientOption) *relock.Client {
				opts = append(opts, relock.WithDialer(d.Dial), relock.WithTLS(config))
				return locktest.NewTestClient(t, s, opts...)
			}
		},
	}, func(t *testing.T, _ string, start func(testing.TB) (*network, client)) {
		d, open := start(t)
		d.Check(t, open)
	})
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

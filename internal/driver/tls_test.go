package driver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// authority is a certificate that vouches for itself, for 127.0.0.1 and
// redis.test.
type authority struct {
	dir  string
	cert *x509.Certificate
}

// newAuthority writes the certificate and its key.
func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"redis.test"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	a := &authority{dir: t.TempDir()}
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	for kind, data := range map[string][]byte{"CERTIFICATE": der, "EC PRIVATE KEY": secret} {
		require.NoError(t, os.WriteFile(a.path(kind), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
	}
	return a
}

func (a *authority) path(kind string) string { return filepath.Join(a.dir, kind) }

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) pair(t testing.TB) []tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.path("CERTIFICATE"), a.path("EC PRIVATE KEY"))
	require.NoError(t, err)
	return []tls.Certificate{pair}
}

// startTLS runs a server with the certificate, and returns its encrypted
// address.
func (a *authority) startTLS(t testing.TB, clients string) (*redistest.Server, string) {
	t.Helper()
	port := redistest.FreePort(t)
	s := redistest.Start(t, "--bind", "127.0.0.1", "--tls-port", port, "--tls-auth-clients", clients,
		"--tls-cert-file", a.path("CERTIFICATE"), "--tls-key-file", a.path("EC PRIVATE KEY"), "--tls-ca-cert-file", a.path("CERTIFICATE"))
	return s, "127.0.0.1:" + port
}

func tlsClient(t testing.TB, address string, config *tls.Config, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c, err := relock.NewClient("tcp", address, "", append(opts, relock.WithTLS(config))...)
	return newClient(t, c, err)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	good, other := newAuthority(t), newAuthority(t)
	s, address := good.startTLS(t, "no")
	config := &tls.Config{RootCAs: good.pool()}
	for _, tt := range []struct {
		name   string
		config *tls.Config
		want   string // "" where it works
	}{
		{"good CA", config, ""},
		{"good CA, name given", &tls.Config{RootCAs: good.pool(), ServerName: "redis.test"}, ""},
		{"TLS 1.2", &tls.Config{RootCAs: good.pool(), MaxVersion: tls.VersionTLS12}, ""},
		{"wrong CA", &tls.Config{RootCAs: other.pool()}, "unknown authority"},
		{"system's CAs", nil, "unknown authority"},
		{"wrong host name", &tls.Config{RootCAs: good.pool(), ServerName: "elsewhere.test"}, "elsewhere.test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, url := range []string{"", "rediss://" + address, "redis://" + address, "rediss://" + address + "/2"} {
				c, err := relock.NewClient("tcp", address, "", relock.WithTLS(tt.config))
				if url != "" {
					require.NoError(t, c.Close())
					c, err = relock.NewClientURL(url, relock.WithTLS(tt.config))
				}
				require.NoError(t, err)
				l := relock.NewRedisLock("k", c, relock.WithBlock())
				ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
				err = l.Lock(ctx)
				cancel()
				if tt.want == "" {
					require.NoError(t, err)
					require.NoError(t, l.Unlock(t.Context()))
				} else {
					require.ErrorContains(t, err, tt.want)
					require.NotErrorIs(t, err, context.DeadlineExceeded, "a blocking Lock does not wait for a certificate")
					require.False(t, relock.IsRetryableErr(err))
				}
				require.NoError(t, c.Close())
			}
		})
	}
	require.Empty(t, config.ServerName, "the user's config is left as it is")

	t.Run("rediss alone uses the system's CAs", func(t *testing.T) {
		c, err := relock.NewClientURL("rediss://" + address)
		require.ErrorContains(t, newClient(t, c, err).Ping(t.Context()), "unknown authority")
	})
	t.Run("renewals are encrypted too", func(t *testing.T) {
		c := tlsClient(t, address, config)
		requireRenewed(t, acquire(t, c, "k"))
		s.Pause(t)
		defer s.Resume(t)
		half := locktest.SetAlarm(t, time.Now().Add(locktest.CloseLimit/2))
		require.NoError(t, locktest.Begin(t, c.Close).End(half))
	})
}

func TestTLSClientCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	_, address := a.startTLS(t, "yes")
	require.NoError(t, tlsClient(t, address, &tls.Config{RootCAs: a.pool(), Certificates: a.pair(t)}).Ping(t.Context()))
	// With TLS 1.2 the refusal comes within the handshake, with 1.3 after it.
	err := tlsClient(t, address, &tls.Config{RootCAs: a.pool(), MaxVersion: tls.VersionTLS12}).Ping(t.Context())
	require.Error(t, err)
	require.False(t, relock.IsRetryableErr(err), err)
	require.Error(t, tlsClient(t, address, &tls.Config{RootCAs: a.pool()}).Ping(t.Context()))
}

func TestTLSAgainstPlainServer(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	err := tlsClient(t, s.Address, nil, relock.WithDialTimeout(100*time.Millisecond)).Ping(t.Context())
	require.Error(t, err)
	require.NotContains(t, err.Error(), "\n")
}

func TestPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "open sesame")
	for _, tt := range []struct {
		name, password string
		opts           []relock.ClientOption
		want           string // "" where the server lets it in
	}{
		{name: "right", password: "open sesame"},
		{name: "right, default user named", password: "open sesame", opts: []relock.ClientOption{relock.WithUsername("default")}},
		{name: "wrong", password: "hunter2", want: "WRONGPASS"},
		{name: "unknown user", password: "open sesame", opts: []relock.ClientOption{relock.WithUsername("nobody")}, want: "WRONGPASS"},
		{name: "none", want: "NOAUTH"},
		{name: "none, with a database", opts: []relock.ClientOption{relock.WithDatabase(1)}, want: "NOAUTH"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := relock.NewClient(s.Network, s.Address, tt.password, tt.opts...)
			err = newClient(t, c, err).Ping(t.Context())
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, relock.ErrDenied)
			require.ErrorContains(t, err, tt.want)
			require.False(t, relock.IsRetryableErr(err))
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "sesame")
		})
	}
}

func TestACLUser(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "worker", "on", ">wor|ker:p@ss", "~*", "+@all")
	c := locktest.NewTestClient(t, s) // the default user, for comparison
	require.Equal(t, "default", whoami(t, c))

	c, err := relock.NewClient(s.Network, s.Address, "wor|ker:p@ss", relock.WithUsername("worker"))
	require.Equal(t, "worker", whoami(t, newClient(t, c, err)))

	user := url.UserPassword("worker", "wor|ker:p@ss")
	c, err = relock.NewClientURL("unix://" + user.String() + "@" + s.Address)
	require.Equal(t, "worker", whoami(t, newClient(t, c, err)))
}

func whoami(t testing.TB, c *relock.Client) string {
	t.Helper()
	conns := locktest.Borrow(t, c, 1)
	defer locktest.PutBack(c, conns)
	name, err := redis.String(conns[0].Do("ACL", "WHOAMI"))
	require.NoError(t, err)
	return name
}

func TestDatabase(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	byURL := func(query string, opts ...relock.ClientOption) *relock.Client {
		c, err := relock.NewClientURL("unix://"+s.Address+query, opts...)
		return newClient(t, c, err)
	}
	for name, c := range map[string]*relock.Client{
		"option":           locktest.NewTestClient(t, s, relock.WithDatabase(3)),
		"URL":              byURL("?db=3"),
		"option beats URL": byURL("?db=5", relock.WithDatabase(3)),
	} {
		t.Run(name, func(t *testing.T) {
			h := acquire(t, c, "k")
			requireRenewed(t, h) // the watchdog's connection is in that database too
			conn := s.Dial(t, redis.DialDatabase(3))
			defer conn.Close() //nolint:errcheck // nothing is pending
			n, err := redis.Int(conn.Do("EXISTS", locktest.KeyOf(c, "k")))
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, int64(0), s.Do(t, "EXISTS", locktest.KeyOf(c, "k")))
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
	err := locktest.NewTestClient(t, s, relock.WithDatabase(16)).Ping(t.Context())
	require.ErrorContains(t, err, "out of range")
	require.False(t, relock.IsRetryableErr(err))
}

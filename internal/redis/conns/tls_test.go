package conns_test

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
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// authority is a certificate that vouches for itself, for 127.0.0.1 and
// redis.test.
type authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// newAuthority writes the certificate and its key.
func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{dir: t.TempDir(), key: key}
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	a.write(t, "EC PRIVATE KEY", "EC PRIVATE KEY", secret)
	a.cert = a.certify(t, "CERTIFICATE", time.Now().Add(time.Hour))
	return a
}

// certify writes a certificate of the key into a file.
func (a *authority) certify(t testing.TB, file string, until time.Time) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"redis.test"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	a.write(t, file, "CERTIFICATE", der)
	return cert
}

func (a *authority) write(t testing.TB, file, kind string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(a.path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

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
		"--tls-cert-file", a.path("CERTIFICATE"), "--tls-key-file", a.path("EC PRIVATE KEY"), "--tls-ca-cert-file",
		a.path("CERTIFICATE"))
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
		locktest.RequireRenewed(t, locktest.Acquire(t, c, "k"))
		s.Pause(t)
		defer s.Resume(t)
		half := locktest.SetAlarm(t, time.Now().Add(locktest.CloseLimit/2))
		require.NoError(t, locktest.Begin(t, c.Close).End(half))
	})
}

// A certificate that has expired may be about to be replaced. Calls that may
// wait do so, and go on with the new one.
func TestTLSCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.certify(t, "expired", time.Now().Add(-time.Minute))
	s, address := a.startTLS(t, "no")
	s.Do(t, "CONFIG", "SET", "tls-cert-file", a.path("expired"))
	var log locktest.LogBuffer
	c := tlsClient(t, address, &tls.Config{RootCAs: a.pool()}, log.Option())
	err := c.Ping(t.Context())
	require.ErrorContains(t, err, "certificate has expired")
	require.True(t, relock.IsRetryableErr(err))
	q, err := queue.New(t.Name(), c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var done atomic.Bool
	processing := testkit.Async(t, func() error {
		return q.Process(ctx, func(context.Context, *queue.Delivery) error {
			done.Store(true)
			return nil
		})
	})
	lock := relock.NewRedisLock("k", c, relock.WithBlock())
	locking := testkit.Async(t, func() error { return lock.Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool {
		return log.Lines("level=WARN", "no usable server", "certificate has expired") > 0
	}, "it is logged")
	require.Empty(t, locking)
	require.Empty(t, processing)
	s.Do(t, "CONFIG", "SET", "tls-cert-file", a.path("CERTIFICATE"))
	require.NoError(t, testkit.ResultWithin(t, locking, testkit.Patience))
	require.NoError(t, lock.Unlock(t.Context()))
	_, err = q.Enqueue(t.Context(), queue.Task{})
	require.NoError(t, err)
	testkit.Eventually(t, testkit.Patience, done.Load, "Process goes on")
	cancel()
	require.NoError(t, testkit.ResultWithin(t, processing, testkit.Patience))
}

func TestTLSClientCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	_, address := a.startTLS(t, "yes")
	require.NoError(t, tlsClient(t, address, &tls.Config{RootCAs: a.pool(), Certificates: a.pair(t)}).Ping(t.Context()))
	// With TLS 1.2 the refusal comes within the handshake, with 1.3 after
	// it.
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
		{name: "right, default user named", password: "open sesame", opts: []relock.ClientOption{
			relock.WithUsername("default"),
		}},
		{name: "wrong", password: "hunter2", want: "WRONGPASS"},
		{
			name: "unknown user", password: "open sesame",
			opts: []relock.ClientOption{relock.WithUsername("nobody")}, want: "WRONGPASS",
		},
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
	conns := borrow(t, c, 1)
	defer putBack(c, conns)
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
			h := locktest.Acquire(t, c, "k")
			locktest.RequireRenewed(t, h) // the watchdog's connection is in that database too
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

// In plain text, a port of TLS ends each connection. The error says what it may
// be, and so does the log of a wait.
func TestPlainTextAtAPortOfTLS(t *testing.T) {
	t.Parallel()
	_, address := newAuthority(t).startTLS(t, "no")
	for _, url := range []string{"redis://" + address, "redis://:password@" + address} {
		var log locktest.LogBuffer
		c := locktest.CloseLater(t)(relock.NewClientURL(url, log.Option()))
		for _, err := range []error{c.Ping(t.Context()), relock.NewRedisLock("k", c).Lock(t.Context())} {
			require.ErrorContains(t, err, "the port may be one of TLS: rediss://")
			require.True(t, relock.IsRetryableErr(err))
		}
		call := testkit.Async(t, func() error { return relock.NewRedisLock("k", c, relock.WithBlock()).Lock(t.Context()) })
		testkit.Eventually(t, testkit.Patience, func() bool {
			return log.Lines("level=WARN", "no usable server", " server="+address, "rediss://") == 1
		}, "it is logged")
		require.NoError(t, c.Close())
		require.ErrorIs(t, testkit.ResultWithin(t, call, testkit.Patience), relock.ErrClosed)
	}
}

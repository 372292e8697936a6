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
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// authority is a certificate authority of a test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca", &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})
	return a
}

// issue writes name.crt and name.key.
func (a *authority) issue(t testing.TB, name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	a.write(t, name+".crt", "CERTIFICATE", der)
	a.write(t, name+".key", "EC PRIVATE KEY", secret)
	return cert, key
}

func (a *authority) write(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(a.path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// startTLS runs a server with a certificate of a for 127.0.0.1 and redis.test, and returns its encrypted address.
func (a *authority) startTLS(t testing.TB, clients string) (*redistest.Server, string) {
	t.Helper()
	a.issue(t, "server", &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"redis.test"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	port := redistest.FreePort(t)
	s := redistest.Start(t, "--bind", "127.0.0.1", "--tls-port", port, "--tls-auth-clients", clients,
		"--tls-cert-file", a.path("server.crt"), "--tls-key-file", a.path("server.key"), "--tls-ca-cert-file", a.path("ca.crt"))
	return s, "127.0.0.1:" + port
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
			for name, newClient := range map[string]func() (*relock.Client, error){
				"NewClient": func() (*relock.Client, error) { return relock.NewClient("tcp", address, "", relock.WithTLS(tt.config)) },
				"rediss URL": func() (*relock.Client, error) {
					return relock.NewClientURL("rediss://"+address, relock.WithTLS(tt.config))
				},
				"redis URL": func() (*relock.Client, error) {
					return relock.NewClientURL("redis://"+address, relock.WithTLS(tt.config))
				},
				"Redis database": func() (*relock.Client, error) {
					return relock.NewClientURL("rediss://"+address+"/2", relock.WithTLS(tt.config))
				},
			} {
				c, err := newClient()
				require.NoError(t, err)
				l := relock.NewRedisLock(name, c, relock.WithBlock())
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
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
		require.NoError(t, err)
		require.ErrorContains(t, c.Ping(t.Context()), "unknown authority")
		require.NoError(t, c.Close())
	})
	t.Run("renewals are encrypted too", func(t *testing.T) {
		c, err := relock.NewClient("tcp", address, "", relock.WithTLS(config))
		require.NoError(t, err)
		h, err := relock.NewRedisLock("k", c, relock.WithWatchdog(2400*time.Millisecond)).Acquire(t.Context())
		require.NoError(t, err)
		select {
		case <-h.Context().Done():
		case <-time.After(3200 * time.Millisecond):
		}
		require.NoError(t, h.Err())
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
	a.issue(t, "client", &x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pair, err := tls.LoadX509KeyPair(a.path("client.crt"), a.path("client.key"))
	require.NoError(t, err)

	c, err := relock.NewClient("tcp", address, "", relock.WithTLS(&tls.Config{RootCAs: a.pool(), Certificates: []tls.Certificate{pair}}))
	require.NoError(t, err)
	require.NoError(t, c.Ping(t.Context()))
	require.NoError(t, c.Close())

	// With TLS 1.2 the refusal comes within the handshake, with 1.3 after it.
	c, err = relock.NewClient("tcp", address, "", relock.WithTLS(&tls.Config{RootCAs: a.pool(), MaxVersion: tls.VersionTLS12}))
	require.NoError(t, err)
	err = c.Ping(t.Context())
	require.Error(t, err)
	require.False(t, relock.IsRetryableErr(err), err)
	require.NoError(t, c.Close())
	c, err = relock.NewClient("tcp", address, "", relock.WithTLS(&tls.Config{RootCAs: a.pool()}))
	require.NoError(t, err)
	require.Error(t, c.Ping(t.Context()))
	require.NoError(t, c.Close())
}

func TestTLSAgainstPlainServer(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	c, err := relock.NewClient(s.Network, s.Address, "", relock.WithTLS(nil), relock.WithDialTimeout(100*time.Millisecond))
	require.NoError(t, err)
	err = c.Ping(t.Context())
	require.Error(t, err)
	require.NotContains(t, err.Error(), "\n")
	require.NoError(t, c.Close())
}

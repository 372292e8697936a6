package goredis_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
)

// The TLS of rdb is used, and its mistakes are errors.
func TestTLSOfTheUser(t *testing.T) {
	t.Parallel()
	_, address, config := startTLS(t)
	c := newClient(t, redis.NewClient(&redis.Options{Addr: address, TLSConfig: config}))
	require.NoError(t, relock.NewRedisLock("name", c).Do(t.Context(), func(context.Context) error { return nil }))

	stranger := config.Clone()
	stranger.ServerName = "elsewhere.test"
	rdb := redis.NewClient(&redis.Options{Addr: address, TLSConfig: stranger})
	defer rdb.Close() //nolint:errcheck // it has no connection
	err := relock.NewRedisLock("name", newClientOnly(t, rdb)).Do(t.Context(), func(context.Context) error { return nil })
	require.ErrorContains(t, err, "elsewhere.test")
}

// So it is on a Cluster.
func TestTLSOfACluster(t *testing.T) {
	t.Parallel()
	s, address, config := startTLS(t, "--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-announce-ip", "127.0.0.1")
	s.Do(t, "CLUSTER", "ADDSLOTSRANGE", 0, slots-1)
	c := newClient(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, TLSConfig: config}))
	require.NoError(t, relock.NewRedisLock("name", c, relock.WithBlock()).Do(t.Context(), func(context.Context) error { return nil }))
}

// startTLS runs a server that encrypts, and returns its address and a client's
// settings.
func startTLS(t testing.TB, args ...string) (s *redistest.Server, address string, client *tls.Config) {
	t.Helper()
	source := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer source.Close()
	key, err := x509.MarshalPKCS8PrivateKey(source.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(kind string, data []byte) string {
		path := filepath.Join(dir, kind)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
		return path
	}
	cert := write("CERTIFICATE", source.Certificate().Raw)
	port := redistest.FreePort(t)
	s = redistest.Start(t, append(args, "--bind", "127.0.0.1", "--tls-port", port, "--tls-auth-clients", "no",
		"--tls-cert-file", cert, "--tls-key-file", write("PRIVATE KEY", key), "--tls-ca-cert-file", cert)...)
	pool := x509.NewCertPool()
	pool.AddCert(source.Certificate())
	return s, "127.0.0.1:" + port, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

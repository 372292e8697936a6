package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// StartTLS runs a server that encrypts, and returns its address and a client's
// settings.
func StartTLS(t testing.TB, args ...string) (s *Server, address string, client *tls.Config) {
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
	port := FreePort(t)
	s = Start(t, append(args, "--bind", "127.0.0.1", "--tls-port", port, "--tls-auth-clients", "no",
		"--tls-cert-file", cert, "--tls-key-file", write("PRIVATE KEY", key), "--tls-ca-cert-file", cert)...)
	pool := x509.NewCertPool()
	pool.AddCert(source.Certificate())
	return s, "127.0.0.1:" + port, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// StartClusterTLS runs a Cluster of one server that encrypts and asks for a
// password, and returns its address and a client's settings.
func StartClusterTLS(t testing.TB, password string) (address string, client *tls.Config) {
	t.Helper()
	s, address, client := StartTLS(t, "--cluster-enabled", "yes", "--tls-cluster", "yes",
		"--cluster-announce-ip", "127.0.0.1")
	s.Do(t, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	if password != "" {
		s.Do(t, "CONFIG", "SET", "requirepass", password)
	}
	return address, client
}

package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TrustTLS returns the settings of clients that trust the certificate of
// CertifyTLS.
func TrustTLS() *tls.Config {
	source := httptest.NewTLSServer(nil)
	defer source.Close()
	return source.Client().Transport.(*http.Transport).TLSClientConfig
}

// CertifyTLS writes a certificate of 127.0.0.1 and its key into a folder. It
// returns the arguments for a server that encrypts on the port.
func CertifyTLS(dir, port string) (args []string, err error) {
	source := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer source.Close()
	key, err := x509.MarshalPKCS8PrivateKey(source.TLS.Certificates[0].PrivateKey)
	write := func(kind string, data []byte) string {
		path := filepath.Join(dir, kind)
		err = errors.Join(err, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
		return path
	}
	cert := write("CERTIFICATE", source.Certificate().Raw)
	return []string{
		"--bind", "127.0.0.1", "--tls-port", port, "--tls-auth-clients", "no",
		"--tls-cert-file", cert, "--tls-key-file", write("PRIVATE KEY", key), "--tls-ca-cert-file", cert,
	}, err
}

// StartTLS runs a server that encrypts, and returns its address and a client's
// settings.
func StartTLS(t testing.TB, args ...string) (s *Server, address string, client *tls.Config) {
	t.Helper()
	port := FreePort(t)
	encrypted, err := CertifyTLS(t.TempDir(), port)
	require.NoError(t, err)
	return Start(t, append(args, encrypted...)...), "127.0.0.1:" + port, TrustTLS()
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

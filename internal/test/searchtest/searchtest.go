// Package searchtest is what the tests of Sentinels and of Clusters share.
package searchtest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/testkit"
)

// NoFailover is how long a machine may stall without a failover.
const NoFailover = 20 * time.Second

// Pointer returns a pointer to a password.
func Pointer(text string) *string { return &text }

// Open returns a topology with a changed configuration, closed when the test
// ends.
func Open[C any, T io.Closer](t testing.TB, of func(C) T, c C, changes []func(*C)) T {
	for _, f := range changes {
		f(&c)
	}
	p := of(c)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// Connections returns the settings of connections to the servers.
func Connections() *driver.Config {
	return &driver.Config{Password: new(string), DialTimeout: 5 * time.Second, CommandTimeout: 3 * time.Second}
}

// PemFiles writes a certificate and its key to files.
func PemFiles(t testing.TB, c tls.Certificate) (certificate, key string) {
	t.Helper()
	bytes, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	require.NoError(t, err)
	write := func(name string, block *pem.Block) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
		return path
	}
	return write("cert", &pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), write("key", &pem.Block{Type: "PRIVATE KEY", Bytes: bytes})
}

// RequireWait requires that a new client waits, although one server said no,
// and that the log has the answer of each.
func RequireWait(t testing.TB, err error, log *testkit.Log, answers ...string) {
	t.Helper()
	require.NotErrorIs(t, err, errs.ErrInvalid)
	require.NotErrorIs(t, err, errs.ErrDenied)
	require.True(t, lockspec.IsRetryable(err), err)
	for _, text := range answers {
		require.ErrorContains(t, err, text)
		testkit.Eventually(t, testkit.Patience, func() bool { return log.Lines("level=WARN", text) > 0 }, text)
	}
}

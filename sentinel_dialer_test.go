package relock_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Sentinels without TLS beside servers with it need a dialer that encrypts to
// the servers. WithTLS encrypts to both, which the sentinels do not understand.
func TestDialerThatEncryptsForServersOnly(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, 20*time.Second)
	web := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer web.Close()
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AddCert(web.Certificate())
	encrypted := map[string]string{}
	for _, one := range s.Servers {
		encrypted[one.Address] = one.Encrypt(t, web.TLS.Certificates)
	}
	servers := relock.WithAddressMap(func(address string) string { return cmp.Or(encrypted[address], address) })
	sentinels := s.Addresses()
	c := locktest.SentinelClient(t, s, servers,
		relock.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if slices.Contains(sentinels, address) {
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
		}))
	held := locktest.Take(t, relock.NewRedisLock("k", c, relock.WithFair(), relock.WithReplicas(2, 5*time.Second)).Acquire)
	waits := testkit.Async(t, func() error {
		return relock.NewRedisLock("k", c, relock.WithBlock(), relock.WithFair()).Lock(t.Context())
	})
	testkit.Eventually(t, testkit.Patience, func() bool {
		return c.Stats().Waiting == 1 && locktest.IsSubscribed(c, "k")
	}, "subscribed over TLS")
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, <-waits)
	for _, opt := range []relock.ClientOption{relock.WithTLS(config), relock.WithLogger(slog.New(slog.DiscardHandler))} {
		require.Error(t, locktest.SentinelClient(t, s, servers, opt, relock.WithDialTimeout(time.Second)).Ping(t.Context()))
	}
}

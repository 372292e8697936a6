package proof

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// tlsTimeout is that of a command over TLS.
const tlsTimeout = 1500 * time.Millisecond

var tlsFaults = map[string]faults.Action{
	"cut before the request": faults.CutBefore,
	"cut in the request":     faults.CutInRequest,
	"cut in the answer":      faults.CutInAnswer,
	"reset in the answer":    faults.ResetInAnswer,
	"cut instead of answer":  faults.CutAfter,
	"request lost":           faults.DropRequest,
	"answer lost":            faults.DropAnswer,
	"request doubled":        faults.Double,
	"answer doubled":         faults.DoubleAnswer,
	"answer late":            faults.Delay(2 * tlsTimeout),
	"request late":           faults.DelayRequest(2 * tlsTimeout),
	"answer byte by byte":    faults.SlowAnswer(tlsTimeout / 4),
	"request byte by byte":   faults.SlowRequest(tlsTimeout / 4),
	"error line":             faults.ErrorLine("LOADING soon"),
	"executed, error line":   faults.ExecuteThenError("LOADING soon"),
}

// The faults of the matrix in an acquire, a renewal and a release over TLS,
// where no caller can wait on the socket itself. Each call ends as one without
// TLS. The lock is free afterwards, and no answer is taken for that to another
// request.
func TestFaultsOverTLS(t *testing.T) {
	t.Parallel()
	s := locktest.WithScripts(t, redistest.StartTCP(t)) // a reset needs TCP
	var cells []locktest.Subtest
	for fault, action := range tlsFaults {
		for _, kind := range serverKinds {
			for _, call := range []string{"acquire", "extend", "unlock"} {
				cells = append(cells, locktest.Subtest{Name: call + " " + kind.name + "/" + fault, Run: func(t testing.TB) {
					c := newTLSCell(t, s, kind)
					c.meet(call, action)
					c.requireFree()
				}})
			}
		}
	}
	locktest.RunTogether(t, cells)
}

// tlsCell is a client over TLS, whose messages go through a proxy.
type tlsCell struct {
	testing.TB
	kind         serverKind
	key          string
	proxy        *faults.Proxy
	client       *relock.Client
	other        relock.Hold // of another client
	lock, locked serverLock
}

func newTLSCell(t testing.TB, s *redistest.Server, kind serverKind) *tlsCell {
	c := &tlsCell{TB: t, kind: kind, proxy: faults.Start(t, s.Network, s.Address)}
	address, config := encrypt(t, locktest.ServerOf(c.proxy))
	c.key = t.Name() // the cells share a server
	c.client = serverClient(t, "tcp", address, relock.WithTLS(config), relock.WithCommandTimeout(tlsTimeout))
	c.other = locktest.Take(t, kind.lock(c.key+"locked", clientOf(t, s)).TryAcquire)
	c.lock, c.locked = kind.lock(c.key, c.client), kind.lock(c.key+"locked", c.client)
	return c
}

// meet makes a call whose first request meets the fault.
func (c *tlsCell) meet(name string, action faults.Action) {
	c.Helper()
	_ = c.client.Ping(c.Context()) // it opens the connection
	var hold relock.Hold
	if name != "acquire" {
		hold = locktest.Take(c, c.kind.lock(c.key, c.client, relock.WithBlock()).Acquire)
	}
	met := c.proxy.On(faults.Any, 1, action)
	var err error
	switch name {
	case "acquire":
		hold, err = c.lock.TryAcquire(c.Context())
	case "extend":
		err = hold.Extend(c.Context(), time.Minute)
		require.NoError(c, hold.Err(), "a fault is no loss")
	case "unlock":
		err = hold.Unlock(c.Context())
		hold = nil
	}
	testkit.Next(c, met, "no request has met the fault")
	c.requireUnknown(name, err)
	_, err = c.locked.TryAcquire(c.Context())
	require.Error(c, err, "the answer to another request is taken for a grant")
	if hold != nil {
		c.requireUnknown("unlock", hold.Unlock(c.Context()))
	}
}

// requireUnknown requires that a call has succeeded, or that nobody knows.
func (c *tlsCell) requireUnknown(name string, err error) {
	c.Helper()
	require.True(c, err == nil || isUnanswered(err), "%s: %v", name, err)
}

// isUnanswered reports whether a call has failed since no answer came that it
// can use.
func isUnanswered(err error) bool {
	return errors.Is(err, relock.ErrUnconfirmed) || relock.IsRetryableErr(err)
}

// requireFree requires that the lock is free soon, and taken and released.
func (c *tlsCell) requireFree() {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), testkit.Patience)
	defer cancel()
	hold := locktest.Take(c, func(context.Context) (relock.Hold, error) {
		return c.kind.lock(c.key, c.client, relock.WithBlock()).Acquire(ctx)
	})
	c.requireUnknown("unlock", hold.Unlock(ctx)) // an answer may be late yet
	require.NoError(c, c.other.Unlock(ctx))
}

// A server that takes connections, and never answers in the handshake of TLS,
// is one that cannot be reached. A call ends with its context or its dial
// timeout, and Close ends all others.
func TestTLSHandshakeThatHangs(t *testing.T) {
	t.Parallel()
	hung := redistest.Serve(t, redistest.Listen(t), func(conn net.Conn) {
		_ = conn.SetDeadline(time.Now().Add(testkit.Patience / 3)) // for a call that nothing else ends
		_, _ = io.Copy(io.Discard, conn)
	})
	c, err := relock.NewClient("tcp", hung.Address, "", relock.WithTLS(nil), relock.WithDialTimeout(time.Second))
	require.NoError(t, err)
	watch := testkit.NewStopwatch(t)
	err = relock.NewRedisLock("k", c).TryLock(t.Context())
	watch.Within(1200*time.Millisecond, "the dial timeout counts for the handshake")
	require.True(t, relock.IsRetryableErr(err), err)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	watch = testkit.NewStopwatch(t)
	err = relock.NewRedisLock("k", c, relock.WithBlock()).Lock(ctx)
	watch.Within(200*time.Millisecond, "the context of the caller")
	require.ErrorIs(t, err, context.DeadlineExceeded)

	none := func() bool { return locktest.PoolOf(c).Connections() == 0 }
	testkit.Eventually(t, testkit.Patience/6, none, "a dial that is over has no connection")

	waiting := testkit.Async(t, func() error { return relock.NewRedisLock("k", c, relock.WithBlock()).Lock(t.Context()) })
	watch = testkit.NewStopwatch(t)
	require.NoError(t, c.Close())
	require.ErrorIs(t, testkit.ResultWithin(t, waiting, testkit.Patience), relock.ErrClosed)
	watch.Within(200*time.Millisecond, "Close")
}

// encrypt returns an address that takes TLS for a server, and the configuration
// that trusts it.
func encrypt(t testing.TB, s *redistest.Server) (address string, config *tls.Config) {
	t.Helper()
	https := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(https.Close)
	pool := x509.NewCertPool()
	pool.AddCert(https.Certificate())
	return s.Encrypt(t, https.TLS.Certificates), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

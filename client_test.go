package relock

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/redistest"
)

// unbounded is a context that cannot end.
func unbounded(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }

// poolOf is the pool below a client.
func poolOf(c *Client) *redis.Pool { return c.driver.(*poolDriver).pool }

// borrow takes n connections out of the client's pool, as its calls do.
func borrow(t testing.TB, c *Client, n int) []redis.Conn {
	t.Helper()
	conns := make([]redis.Conn, n)
	for i := range conns {
		conn, err := c.driver.(*poolDriver).connect(t.Context(), 0)
		require.NoError(t, err)
		conns[i] = conn
	}
	return conns
}

func putBack(c *Client, conns []redis.Conn) {
	for _, conn := range conns {
		c.driver.(*poolDriver).putBack(conn)
	}
}

// warm leaves n idle connections, used once, in the client's pool.
func warm(t testing.TB, c *Client, n int) {
	t.Helper()
	conns := borrow(t, c, n)
	for _, conn := range conns {
		_, err := conn.Do("PING")
		require.NoError(t, err)
	}
	putBack(c, conns)
}

// connections are the ids of the server's connections, without the one that asks.
func connections(t testing.TB, conn redis.Conn) map[string]bool {
	t.Helper()
	own, err := redis.Int64(conn.Do("CLIENT", "ID"))
	require.NoError(t, err)
	text, err := redis.String(conn.Do("CLIENT", "LIST"))
	require.NoError(t, err)
	ids := map[string]bool{}
	for line := range strings.Lines(text) {
		id := strings.TrimPrefix(strings.Fields(line)[0], "id=")
		if id != strconv.FormatInt(own, 10) {
			ids[id] = true
		}
	}
	return ids
}

// closedPort is an address where nobody listens.
func closedPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

func TestNewMakesNoNetworkCall(t *testing.T) {
	t.Parallel()
	address := closedPort(t)
	dials := 0
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { dials++; return nil, errors.New("dialled") }}
	for name, newClient := range map[string]func() (*Client, error){
		"NewClient":     func() (*Client, error) { return NewClient("tcp", address, "password", WithMaxActive(3)) },
		"NewClientURL":  func() (*Client, error) { return NewClientURL("rediss://user:password@" + address + "/3") },
		"NewClientPool": func() (*Client, error) { return NewClientPool(pool) },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newClient()
			require.NoError(t, err)
			require.NoError(t, NewRedisLock("k", c).Validate())
			require.Equal(t, 0, poolOf(c).ActiveCount())
			require.Zero(t, dials)
			require.NoError(t, c.Close())
			require.Equal(t, 0, poolOf(c).ActiveCount())
		})
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	require.NoError(t, c.Ping(t.Context()))
	require.NoError(t, c.Ping(unbounded(t)))
}

func TestSetNEX(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	key := "raw:" + uuid.NewString()

	done, err := c.SetNEX(t.Context(), key, "first", 1234*time.Millisecond)
	require.NoError(t, err)
	require.True(t, done)
	left, err := redis.Int64(s.Do(t, "PTTL", key), nil)
	require.NoError(t, err)
	require.LessOrEqual(t, left, int64(1234))
	require.Greater(t, left, int64(234), "the expiry counts in milliseconds")

	done, err = c.SetNEX(unbounded(t), key, "second", time.Minute)
	require.NoError(t, err, "a key that is taken is no error")
	require.False(t, done)
	value, err := redis.String(s.Do(t, "GET", key), nil)
	require.NoError(t, err)
	require.Equal(t, "first", value)
	left, err = redis.Int64(s.Do(t, "PTTL", key), nil)
	require.NoError(t, err)
	require.LessOrEqual(t, left, int64(1234), "nothing of the second one was done")

	s.Do(t, "DEL", key)
	done, err = c.SetNEX(t.Context(), key, "third", 10*time.Millisecond)
	require.NoError(t, err)
	require.True(t, done)
	eventually(t, time.Second, func() bool { return s.Do(t, "EXISTS", key) == int64(0) }, "it did not expire")
}

func TestSetNEXRefusesExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	key := "raw:" + uuid.NewString()
	for _, expiry := range []time.Duration{0, -1, -time.Hour, 1, 9 * time.Millisecond, 10500 * time.Microsecond, 1<<63 - 1} {
		t.Run(expiry.String(), func(t *testing.T) {
			done, err := c.SetNEX(t.Context(), key, "value", expiry)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, "expiry")
			require.False(t, done)
			require.Equal(t, int64(0), s.Do(t, "EXISTS", key))
		})
	}
	require.Equal(t, 0, poolOf(c).ActiveCount(), "nothing was sent")
}

func TestEval(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	for _, tt := range []struct {
		name, source string
		want         any
	}{
		{"nil", "return nil", nil},
		{"false", "return false", nil},
		{"true", "return true", int64(1)},
		{"number", "return 41.9", int64(41)},
		{"string", "return 'text'", "text"},
		{"empty string", "return ''", ""},
		{"status", "return redis.status_reply('FINE')", "FINE"},
		{"binary", "return '\\0\\r\\n\\255'", "\x00\r\n\xff"},
		{"empty list", "return {}", []any{}},
		{"nested", "return {1, {'two', {3, false}}, redis.status_reply('four')}", []any{int64(1), []any{"two", []any{int64(3), nil}}, "four"}},
		{"keys and arguments", "return {KEYS[1], KEYS[2], ARGV[1], ARGV[2]}", []any{"a", "{b}", "7", "\x00"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := NewScript(tt.source)
			for range 2 { // in full, then by digest
				got, err := c.Eval(t.Context(), script, []string{"a", "{b}"}, 7, "\x00")
				require.NoError(t, err)
				require.Equal(t, tt.want, got)
			}
		})
	}
}

// The answer is nil, int64, string or []any of these, whatever is in it.
func TestEvalErrorInsideAList(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	got, err := c.Eval(t.Context(), NewScript("return {1, redis.error_reply('ERR inner')}"), nil)
	if err != nil {
		require.ErrorContains(t, err, "ERR inner")
		return
	}
	require.Equal(t, []any{int64(1), "ERR inner"}, got)
}

func TestEvalErrors(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	for _, tt := range []struct{ name, source, want string }{
		{"own", "return redis.error_reply('MINE went wrong')", "MINE went wrong"},
		{"raised", "error({err='MINE raised'})", "MINE raised"},
		{"of a command", "return redis.call('HGET', KEYS[1])", "Wrong number of args"},
		{"does not compile", "this is not lua", "Error compiling script"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := c.Eval(t.Context(), NewScript(tt.source), []string{"some key"})
			require.Nil(t, got)
			require.ErrorContains(t, err, tt.want)
			var line redis.Error
			require.ErrorAs(t, err, &line)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "eval", e.Op)
			require.Equal(t, "some key", e.Key)
			require.False(t, IsRetryableErr(err))
		})
	}
	_, err := c.Eval(t.Context(), nil, nil)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "script")
}

// A server that forgets its scripts all the time costs no error, nor a hold that is being renewed.
func TestScriptFlushCostsNoError(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	held, err := NewReentrantLock("held", c, WithWatchdog(300*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)

	stop := make(chan struct{})
	flushed := async(t, func() error {
		conn := s.Dial(t)
		defer conn.Close() //nolint:errcheck // nothing is pending
		pause := time.NewTicker(time.Millisecond)
		defer pause.Stop()
		for {
			if _, err := conn.Do("SCRIPT", "FLUSH"); err != nil {
				return err
			}
			select {
			case <-pause.C:
			case <-stop:
				return nil
			case <-t.Context().Done():
				return nil
			}
		}
	})
	plain, reentrant, script := NewRedisLock("p", c), NewReentrantLock("r", c, WithOwner("me")), NewScript("return {ARGV[1]}")
	for i := range 100 {
		for _, l := range []Mutex{plain, reentrant} {
			require.NoError(t, l.Lock(t.Context()))
			require.NoError(t, l.Unlock(t.Context()))
		}
		got, err := c.Eval(t.Context(), script, nil, i)
		require.NoError(t, err)
		require.Equal(t, []any{strconv.Itoa(i)}, got)
	}
	select {
	case <-held.Context().Done():
	case <-time.After(900 * time.Millisecond): // three leases
	}
	require.NoError(t, held.Err())
	close(stop)
	require.NoError(t, resultWithin(t, flushed, time.Second))
	require.NoError(t, held.Unlock(t.Context()))
}

func TestPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "open sesame")
	for _, tt := range []struct {
		name, password string
		opts           []ClientOption
		want           string // "" where the server lets it in
	}{
		{name: "right", password: "open sesame"},
		{name: "right, default user named", password: "open sesame", opts: []ClientOption{WithUsername("default")}},
		{name: "wrong", password: "hunter2", want: "WRONGPASS"},
		{name: "unknown user", password: "open sesame", opts: []ClientOption{WithUsername("nobody")}, want: "WRONGPASS"},
		{name: "none", want: "NOAUTH"},
		{name: "none, with a database", opts: []ClientOption{WithDatabase(1)}, want: "NOAUTH"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := NewClient(s.Network, s.Address, tt.password, tt.opts...)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			err = c.Ping(t.Context())
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrDenied)
			require.ErrorContains(t, err, tt.want)
			require.False(t, IsRetryableErr(err))
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "sesame")
		})
	}
}

func TestACLUser(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "worker", "on", ">wor|ker:p@ss", "~*", "+@all")
	c := newTestClient(t, s) // the default user, for comparison
	require.Equal(t, "default", whoami(t, c))

	c, err := NewClient(s.Network, s.Address, "wor|ker:p@ss", WithUsername("worker"))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.Equal(t, "worker", whoami(t, c))

	user := url.UserPassword("worker", "wor|ker:p@ss")
	c, err = NewClientURL("unix://" + user.String() + "@" + s.Address)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.Equal(t, "worker", whoami(t, c))
}

func whoami(t testing.TB, c *Client) string {
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
	for name, newClient := range map[string]func() (*Client, error){
		"option": func() (*Client, error) { return NewClient(s.Network, s.Address, "", WithDatabase(3)) },
		"URL":    func() (*Client, error) { return NewClientURL("unix://" + s.Address + "?db=3") },
		"option beats URL": func() (*Client, error) {
			return NewClientURL("unix://"+s.Address+"?db=5", WithDatabase(3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newClient()
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			h, err := NewRedisLock("k", c, WithWatchdog(900*time.Millisecond)).Acquire(t.Context())
			require.NoError(t, err)
			select { // the watchdog's connection is in that database too
			case <-h.Context().Done():
			case <-time.After(1200 * time.Millisecond):
			}
			require.NoError(t, h.Err())
			conn := s.Dial(t, redis.DialDatabase(3))
			defer conn.Close() //nolint:errcheck // nothing is pending
			n, err := redis.Int(conn.Do("EXISTS", keyOf(c, "k")))
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, int64(0), s.Do(t, "EXISTS", keyOf(c, "k")))
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
	c := newTestClient(t, s, WithDatabase(16))
	err := c.Ping(t.Context())
	require.ErrorContains(t, err, "out of range")
	require.False(t, IsRetryableErr(err))
}

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
	address := closedPort(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	s := redistest.Start(t, "--bind", "127.0.0.1", "--tls-port", port, "--tls-auth-clients", clients,
		"--tls-cert-file", a.path("server.crt"), "--tls-key-file", a.path("server.key"), "--tls-ca-cert-file", a.path("ca.crt"))
	return s, address
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
			for name, newClient := range map[string]func() (*Client, error){
				"NewClient":      func() (*Client, error) { return NewClient("tcp", address, "", WithTLS(tt.config)) },
				"rediss URL":     func() (*Client, error) { return NewClientURL("rediss://"+address, WithTLS(tt.config)) },
				"redis URL":      func() (*Client, error) { return NewClientURL("redis://"+address, WithTLS(tt.config)) },
				"Redis database": func() (*Client, error) { return NewClientURL("rediss://"+address+"/2", WithTLS(tt.config)) },
			} {
				c, err := newClient()
				require.NoError(t, err)
				l := NewRedisLock(name, c, WithBlock())
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				err = l.Lock(ctx)
				cancel()
				if tt.want == "" {
					require.NoError(t, err)
					require.NoError(t, l.Unlock(t.Context()))
				} else {
					require.ErrorContains(t, err, tt.want)
					require.NotErrorIs(t, err, context.DeadlineExceeded, "a blocking Lock does not wait for a certificate")
					require.False(t, IsRetryableErr(err))
				}
				require.NoError(t, c.Close())
			}
		})
	}
	require.Empty(t, config.ServerName, "the user's config is left as it is")

	t.Run("rediss alone uses the system's CAs", func(t *testing.T) {
		c, err := NewClientURL("rediss://" + address)
		require.NoError(t, err)
		require.ErrorContains(t, c.Ping(t.Context()), "unknown authority")
		require.NoError(t, c.Close())
	})
	t.Run("renewals are encrypted too", func(t *testing.T) {
		c, err := NewClient("tcp", address, "", WithTLS(config))
		require.NoError(t, err)
		h, err := NewRedisLock("k", c, WithWatchdog(300*time.Millisecond)).Acquire(t.Context())
		require.NoError(t, err)
		select {
		case <-h.Context().Done():
		case <-time.After(400 * time.Millisecond):
		}
		require.NoError(t, h.Err())
		s.Pause(t)
		defer s.Resume(t)
		start := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(start), closeLimit)
	})
}

func TestTLSClientCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	_, address := a.startTLS(t, "yes")
	a.issue(t, "client", &x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pair, err := tls.LoadX509KeyPair(a.path("client.crt"), a.path("client.key"))
	require.NoError(t, err)

	c, err := NewClient("tcp", address, "", WithTLS(&tls.Config{RootCAs: a.pool(), Certificates: []tls.Certificate{pair}}))
	require.NoError(t, err)
	require.NoError(t, c.Ping(t.Context()))
	require.NoError(t, c.Close())

	// With TLS 1.2 the refusal comes within the handshake, with 1.3 after it.
	c, err = NewClient("tcp", address, "", WithTLS(&tls.Config{RootCAs: a.pool(), MaxVersion: tls.VersionTLS12}))
	require.NoError(t, err)
	err = c.Ping(t.Context())
	require.Error(t, err)
	require.False(t, IsRetryableErr(err), err)
	require.NoError(t, c.Close())
	c, err = NewClient("tcp", address, "", WithTLS(&tls.Config{RootCAs: a.pool()}))
	require.NoError(t, err)
	require.Error(t, c.Ping(t.Context()))
	require.NoError(t, c.Close())
}

func TestTLSAgainstPlainServer(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	c, err := NewClient(s.Network, s.Address, "", WithTLS(nil), WithDialTimeout(100*time.Millisecond))
	require.NoError(t, err)
	err = c.Ping(t.Context())
	require.Error(t, err)
	require.NotContains(t, err.Error(), "\n")
	require.NoError(t, c.Close())
}

func TestURL(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]clientConfig{
		"redis://localhost":   {network: "tcp", address: "localhost:6379"},
		"redis://":            {network: "tcp", address: "localhost:6379"},
		"redis://:7000":       {network: "tcp", address: "localhost:7000"},
		"redis://h:7000/":     {network: "tcp", address: "h:7000"},
		"redis://h/4":         {network: "tcp", address: "h:6379", database: 4},
		"redis://h?db=4":      {network: "tcp", address: "h:6379", database: 4},
		"redis://:pw@h:1":     {network: "tcp", address: "h:1", password: "pw"},
		"redis://me:pw@h:1/2": {network: "tcp", address: "h:1", username: "me", password: "pw", database: 2},
		"redis://me:p%40%2F%3A%3F%23%25%20w@h:1/2": {network: "tcp", address: "h:1", username: "me", password: "p@/:?#% w", database: 2},
		"rediss://h":                        {network: "tcp", address: "h:6379", useTLS: true},
		"REDISS://h":                        {network: "tcp", address: "h:6379", useTLS: true},
		"redis://[::1]:7000/1":              {network: "tcp", address: "[::1]:7000", database: 1},
		"redis://[::1]":                     {network: "tcp", address: "[::1]:6379"},
		"unix:///run/redis.sock":            {network: "unix", address: "/run/redis.sock"},
		"unix:///run/redis.sock?db=9":       {network: "unix", address: "/run/redis.sock", database: 9},
		"unix://me:pw@/run/redis%20it.sock": {network: "unix", address: "/run/redis it.sock", username: "me", password: "pw"},
	} {
		t.Run(rawURL, func(t *testing.T) {
			c, err := NewClientURL(rawURL)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			got := clientConfig{
				network: c.config.network, address: c.config.address, username: c.config.username, password: c.config.password,
				database: c.config.database, useTLS: c.config.useTLS,
			}
			require.Equal(t, want, got)
		})
	}
}

func TestURLConnects(t *testing.T) {
	t.Parallel()
	unix, tcp := redistest.Start(t, "--requirepass", "p/w"), redistest.StartTCP(t)
	for _, rawURL := range []string{"unix://:p%2Fw@" + unix.Address, "unix://default:p%2Fw@" + unix.Address + "?db=1", "redis://" + tcp.Address + "/15"} {
		c, err := NewClientURL(rawURL)
		require.NoError(t, err)
		require.NoError(t, c.Ping(t.Context()))
		require.NoError(t, c.Close())
	}
}

// Idle connections that a restart cut cost no error of a lock, however many there are.
func TestRestartCostsNoError(t *testing.T) {
	t.Parallel()
	for name, newLock := range map[string]func(string, *Client) Mutex{
		"RedisLock":     func(key string, c *Client) Mutex { return NewRedisLock(key, c) },
		"ReentrantLock": func(key string, c *Client) Mutex { return NewReentrantLock(key, c) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := newTestClient(t, s)
			l := newLock("k", c)
			for range 3 {
				warm(t, c, 8)
				s.Kill(t)
				s.Boot(t)
				for range 3 {
					require.NoError(t, l.TryLock(t.Context()))
					require.NoError(t, l.Unlock(t.Context()))
				}
			}
		})
	}
}

// A call ends with its context while the server does not answer, and does not cut its connection.
func TestContextEndsCallInFlight(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithMaxIdle(40))
	nothing := NewScript("return 1")
	calls := map[string]func(context.Context) error{
		"Ping":      c.Ping,
		"SetNEX":    func(ctx context.Context) error { _, err := c.SetNEX(ctx, "raw", "v", time.Minute); return err },
		"Eval":      func(ctx context.Context) error { _, err := c.Eval(ctx, nothing, nil); return err },
		"Lock":      func(ctx context.Context) error { return NewRedisLock("1", c).Lock(ctx) },
		"blocking":  func(ctx context.Context) error { return NewRedisLock("2", c, WithBlock()).Lock(ctx) },
		"Acquire":   func(ctx context.Context) error { _, err := NewRedisLock("3", c).Acquire(ctx); return err },
		"Do":        func(ctx context.Context) error { return NewRedisLock("4", c).Do(ctx, noWork) },
		"reentrant": func(ctx context.Context) error { return NewReentrantLock("5", c, WithBlock()).Lock(ctx) },
		"nested": func(ctx context.Context) error {
			return NewReentrantLock("outer", c, WithOwner("me"), WithBlock()).Lock(ctx)
		},
	}
	outer := NewReentrantLock("outer", c, WithOwner("me"))
	require.NoError(t, outer.Lock(t.Context()))
	warm(t, c, 3*len(calls))
	inspector := s.Dial(t)
	defer inspector.Close() //nolint:errcheck // nothing is pending
	before := connections(t, inspector)
	require.GreaterOrEqual(t, len(before), 3*len(calls))

	s.Pause(t)
	var group sync.WaitGroup
	errCause := errors.New("enough")
	type result struct {
		name  string
		err   error
		is    []error
		since time.Duration
	}
	results := make(chan result, 3*len(calls))
	start := time.Now()
	run := func(ctx context.Context, name string, call func(context.Context) error, is ...error) {
		group.Go(func() {
			err := call(ctx)
			results <- result{name, err, is, time.Since(start)}
		})
	}
	deadline, cancel := context.WithDeadline(t.Context(), start.Add(100*time.Millisecond))
	defer cancel()
	caused, cancelCause := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancelCause(errCause) })
	withCause, cancelTimeout := context.WithDeadlineCause(t.Context(), start.Add(100*time.Millisecond), errCause)
	defer cancelTimeout()
	for name, call := range calls {
		run(deadline, name+", deadline", call, context.DeadlineExceeded)
		run(caused, name+", cancel with cause", call, context.Canceled, errCause)
		run(withCause, name+", deadline with cause", call, context.DeadlineExceeded, errCause)
	}
	group.Wait()
	s.Resume(t)
	close(results)
	for r := range results {
		t.Log(r.name, r.since, r.err)
		for _, is := range r.is {
			require.ErrorIs(t, r.err, is, r.name)
		}
		require.False(t, IsRetryableErr(r.err), r.name)
		require.GreaterOrEqual(t, r.since, 95*time.Millisecond, r.name)
		require.Less(t, r.since, 250*time.Millisecond, r.name)
	}
	for i := 1; i <= 5; i++ {
		key := strconv.Itoa(i)
		eventually(t, 2*time.Second, func() bool { return pttl(t, s, c, key) == -2 }, "a lock that nobody was told of stays: "+key)
	}
	require.NoError(t, outer.Unlock(t.Context()))
	eventually(t, 2*time.Second, func() bool { return pttl(t, s, c, "outer") == -2 }, "levels that nobody was told of stay")
	after := connections(t, inspector)
	for id := range before {
		require.True(t, after[id], "connection %s was cut", id)
	}
}

func noWork(context.Context) error { return nil }

func TestNothingIsSentUnderAnEndedContext(t *testing.T) {
	t.Parallel()
	c, err := NewClient("tcp", closedPort(t), "")
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	errCause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	_, setNEX := c.SetNEX(ctx, "raw", "v", time.Minute)
	_, eval := c.Eval(ctx, NewScript("return 1"), nil)
	for _, err := range []error{
		c.Ping(ctx), setNEX, eval,
		NewRedisLock("k", c, WithBlock()).Lock(ctx), NewRedisLock("k", c).TryLock(ctx), NewReentrantLock("k", c).Do(ctx, noWork),
	} {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errCause)
		require.False(t, IsRetryableErr(err))
		require.NotContains(t, err.Error(), "refused")
	}
	require.Equal(t, 0, poolOf(c).ActiveCount())
}

func TestCommandTimeout(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithCommandTimeout(100*time.Millisecond))
	warm(t, c, 4)
	s.Pause(t)
	defer s.Resume(t)
	for name, ctx := range map[string]context.Context{"context that can end": t.Context(), "context that cannot": unbounded(t)} {
		for _, call := range []func() error{
			func() error { return c.Ping(ctx) },
			func() error { return NewRedisLock("k", c).TryLock(ctx) },
		} {
			start := time.Now()
			err := call()
			took := time.Since(start)
			require.Error(t, err, name)
			require.True(t, IsRetryableErr(err), "%s: %v", name, err)
			require.NotErrorIs(t, err, context.DeadlineExceeded, name)
			require.GreaterOrEqual(t, took, 95*time.Millisecond, name)
			require.Less(t, took, 300*time.Millisecond, name)
		}
	}
}

// The commands of a lock have a third of its lease, so that there is time for another attempt.
func TestLockCommandsHaveAThirdOfTheLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	warm(t, c, 2)
	s.Pause(t)
	defer s.Resume(t)
	start := time.Now()
	err := NewRedisLock("k", c, WithExpiry(300*time.Millisecond)).TryLock(unbounded(t))
	require.True(t, IsRetryableErr(err), err)
	require.GreaterOrEqual(t, time.Since(start), 95*time.Millisecond)
	require.Less(t, time.Since(start), 300*time.Millisecond)
}

// The dial timeout covers the log-in.
func TestDialTimeout(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "pw")
	s.Pause(t)
	defer s.Resume(t)
	c, err := NewClient(s.Network, s.Address, "pw", WithDialTimeout(100*time.Millisecond), WithCommandTimeout(10*time.Second))
	require.NoError(t, err)
	start := time.Now()
	err = c.Ping(unbounded(t))
	require.True(t, IsRetryableErr(err), err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(start), 95*time.Millisecond)
	require.Less(t, time.Since(start), 300*time.Millisecond)
	require.NoError(t, c.Close())
}

func TestMaxActiveWithoutWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithMaxActive(2))
	conns := borrow(t, c, 2)
	for _, ctx := range []context.Context{t.Context(), unbounded(t)} {
		err := c.Ping(ctx)
		require.ErrorIs(t, err, redis.ErrPoolExhausted)
		require.True(t, IsRetryableErr(err))
		err = NewRedisLock("k", c).Lock(ctx)
		require.ErrorIs(t, err, redis.ErrPoolExhausted)
		require.True(t, IsRetryableErr(err))
	}
	err := NewRedisLock("k", c, WithBlockTimeout(60*time.Millisecond)).Lock(t.Context())
	require.ErrorIs(t, err, redis.ErrPoolExhausted, "the last reason seen")

	waiting := async(t, func() error { return NewRedisLock("k", c, WithBlock()).Lock(t.Context()) })
	putBack(c, conns)
	require.NoError(t, resultWithin(t, waiting, 2*time.Second), "a blocking Lock rides out a full pool")
	require.LessOrEqual(t, poolOf(c).ActiveCount(), 2)
}

func TestMaxActiveWithWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithMaxActive(1), WithWaitMode())
	conns := borrow(t, c, 1)
	var results []<-chan error
	for _, ctx := range []context.Context{t.Context(), unbounded(t)} {
		results = append(results,
			async(t, func() error { return c.Ping(ctx) }),
			async(t, func() error { return NewRedisLock(uuid.NewString(), c).TryLock(ctx) }))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Ping(ctx), context.DeadlineExceeded, "the wait for a connection ends with the context")
	for _, result := range results {
		require.Empty(t, result, "it did not wait")
	}
	putBack(c, conns)
	for _, result := range results {
		require.NoError(t, resultWithin(t, result, time.Second))
	}
}

func TestWaitModeEndsWithTheDialTimeout(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithMaxActive(1), WithWaitMode(), WithDialTimeout(80*time.Millisecond))
	defer putBack(c, borrow(t, c, 1))
	start := time.Now()
	err := c.Ping(unbounded(t))
	require.True(t, IsRetryableErr(err), err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(start), 75*time.Millisecond)
	require.Less(t, time.Since(start), 300*time.Millisecond)
}

func TestIdleConnections(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithMaxIdle(2), WithIdleTimeout(50*time.Millisecond))
	warm(t, c, 5)
	require.Equal(t, 2, poolOf(c).IdleCount())
	time.Sleep(60 * time.Millisecond) // idle connections are closed at the next borrow
	require.NoError(t, c.Ping(t.Context()))
	require.Equal(t, 1, poolOf(c).IdleCount())
}

// A lock and its unlock are two commands: no PING when a connection is borrowed, nothing else.
func TestTwoCommandsForAPair(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	const pairs = 50
	for name, l := range map[string]Mutex{"RedisLock": NewRedisLock("k", c), "ReentrantLock": NewReentrantLock("k", c)} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, l.Lock(t.Context())) // makes the server know the scripts
			require.NoError(t, l.Unlock(t.Context()))
			marker := uuid.NewString()
			monitor := s.Dial(t)
			defer monitor.Close() //nolint:errcheck // nothing is pending
			_, err := monitor.Do("MONITOR")
			require.NoError(t, err)
			for i := range pairs {
				ctx := t.Context()
				if i%2 == 0 {
					ctx = unbounded(t)
				}
				require.NoError(t, l.Lock(ctx))
				require.NoError(t, l.Unlock(ctx))
			}
			s.Do(t, "ECHO", marker)
			var sent []string
			for {
				line, err := redis.String(monitor.Receive())
				require.NoError(t, err)
				if strings.Contains(line, marker) {
					break
				}
				if _, from, _ := strings.Cut(line, "["); !strings.HasPrefix(from, "0 lua]") {
					sent = append(sent, line)
				}
			}
			require.Len(t, sent, 2*pairs)
			for _, line := range sent {
				require.NotContains(t, strings.ToUpper(line), `"PING"`)
			}
		})
	}
}

// closeLimit is how long Close, and every call that it ends, may take.
const closeLimit = 100 * time.Millisecond

// closing is what a client has when it is closed.
type closing struct {
	s      *redistest.Server
	c      *Client
	pool   *redis.Pool   // the user's, else nil
	block  chan struct{} // closed to let the user's dials go on
	once   sync.Once     // of that
	blocks atomic.Bool   // whether the user's dials block
	stuck  atomic.Int32  // the user's dials that do
	taken  []redis.Conn  // out of the pool, by the test
}

func (b *closing) ownClient(opts ...ClientOption) func(*testing.T) {
	return func(t *testing.T) {
		c, err := NewClient(b.s.Network, b.s.Address, "", append(opts, WithKeyPrefix("test:"))...)
		require.NoError(t, err)
		b.c = c
	}
}

func (b *closing) unblock() { b.once.Do(func() { close(b.block) }) }

// endAtCleanup ends all calls that async has started before, also when the test fails.
func (b *closing) endAtCleanup(t *testing.T) {
	t.Cleanup(func() {
		b.unblock()
		_ = b.c.Close() // what it says is checked elsewhere
	})
}

func (b *closing) dial() (redis.Conn, error) {
	if b.blocks.Load() {
		b.stuck.Add(1)
		<-b.block
	}
	return redis.Dial(b.s.Network, b.s.Address)
}

func (b *closing) userClient(knowsContext bool) func(*testing.T) {
	return func(t *testing.T) {
		b.pool = &redis.Pool{MaxIdle: 10}
		if knowsContext { // by its type only
			b.pool.DialContext = func(context.Context) (redis.Conn, error) { return b.dial() }
		} else {
			b.pool.Dial = b.dial
		}
		c, err := NewClientPool(b.pool, WithKeyPrefix("test:"))
		require.NoError(t, err)
		b.c = c
	}
}

// TestClose is not parallel: it counts milliseconds and goroutines.
func TestClose(t *testing.T) {
	for _, tt := range []struct {
		name  string
		setup func(*closing) func(*testing.T)
		spoil func(*testing.T, *closing)
		alive bool // calls in flight may succeed before Close
	}{
		{
			name: "idle server", alive: true,
			setup: func(b *closing) func(*testing.T) { return b.ownClient() },
			spoil: func(*testing.T, *closing) {},
		},
		{
			name:  "paused server",
			setup: func(b *closing) func(*testing.T) { return b.ownClient() },
			spoil: func(t *testing.T, b *closing) { b.s.Pause(t) },
		},
		{
			name:  "full pool in wait mode",
			setup: func(b *closing) func(*testing.T) { return b.ownClient(WithMaxActive(3), WithWaitMode()) },
			spoil: func(t *testing.T, b *closing) {
				b.taken = borrow(t, b.c, 3)
			},
		},
		{
			name:  "server gone",
			setup: func(b *closing) func(*testing.T) { return b.ownClient() },
			spoil: func(t *testing.T, b *closing) { b.s.Kill(t) }, alive: true,
		},
		{
			name: "user's pool", alive: true,
			setup: func(b *closing) func(*testing.T) { return b.userClient(false) },
			spoil: func(*testing.T, *closing) {},
		},
		{
			name:  "user's pool, paused server",
			setup: func(b *closing) func(*testing.T) { return b.userClient(false) },
			spoil: func(t *testing.T, b *closing) { b.s.Pause(t) },
		},
		{
			name:  "user's pool, Dial blocks",
			setup: func(b *closing) func(*testing.T) { return b.userClient(false) },
			spoil: blockDials,
		},
		{
			name:  "user's pool, Dial and engine's Dial block",
			setup: func(b *closing) func(*testing.T) { return b.userClient(false) },
			spoil: blockEngine,
		},
		{
			name:  "user's pool, DialContext and engine's DialContext block",
			setup: func(b *closing) func(*testing.T) { return b.userClient(true) },
			spoil: blockEngine,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &closing{s: redistest.Start(t), block: make(chan struct{})}
			leaks := goleak.IgnoreCurrent()
			tt.setup(b)(t)
			closeEndsAll(t, b, tt.spoil, tt.alive)

			b.unblock()
			putBack(b.c, b.taken)
			switch tt.name {
			case "server gone":
			case "paused server", "user's pool, paused server":
				b.s.Resume(t)
				fallthrough
			default:
				inspector := b.s.Dial(t)
				defer inspector.Close() //nolint:errcheck // nothing is pending
				if b.pool != nil {
					conn := b.pool.Get()
					_, err := conn.Do("PING")
					require.NoError(t, err, "the user's pool stays open")
					require.NoError(t, conn.Close())
					require.NoError(t, b.pool.Close())
				}
				eventually(t, time.Second, func() bool { return len(connections(t, inspector)) == 0 }, "connections stay")
			}
			goleak.VerifyNone(t, leaks)
		})
	}
}

// blockDials makes the user's dials block, and takes the idle connections away until all who want one dial.
func blockDials(t *testing.T, b *closing) {
	b.blocks.Store(true)
	for range 4 {
		async(t, func() error { _ = b.c.Ping(t.Context()); return nil })
	}
	b.endAtCleanup(t)
	eventually(t, 2*time.Second, func() bool {
		for b.pool.IdleCount() > 0 {
			b.taken = append(b.taken, b.pool.Get())
		}
		dialling := b.pool.ActiveCount() - len(b.taken)
		return dialling >= 4 && int(b.stuck.Load()) >= dialling
	}, "dials do not block")
}

// blockEngine makes the watchdog dial too.
func blockEngine(t *testing.T, b *closing) {
	_, err := NewRedisLock("renewed", b.c, WithWatchdog(300*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	blockDials(t, b)
	stuck := b.stuck.Load()
	eventually(t, 2*time.Second, func() bool { return b.stuck.Load() > stuck }, "the watchdog does not dial")
}

func closeEndsAll(t *testing.T, b *closing, spoil func(*testing.T, *closing), alive bool) {
	c := b.c
	h, err := NewRedisLock("held", c, WithWatchdog(2*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	nested, err := NewReentrantLock("nested", c, WithOwner("me")).Acquire(t.Context())
	require.NoError(t, err)
	shared := NewRedisLock("shared", c, WithBlock())
	require.NoError(t, shared.Lock(t.Context()))
	ctx, forever := t.Context(), unbounded(t)
	waits := []<-chan error{
		async(t, func() error { return NewRedisLock("held", c, WithBlock()).Lock(ctx) }),
		async(t, func() error { return NewRedisLock("held", c, WithBlock()).Lock(forever) }),
		async(t, func() error { return shared.Lock(ctx) }),
		async(t, func() error { return shared.Lock(forever) }),
		async(t, func() error { return NewReentrantLock("nested", c, WithBlock()).Lock(ctx) }),
		async(t, func() error { _, err := NewReentrantLock("nested", c, WithBlock()).Acquire(forever); return err }),
	}
	b.endAtCleanup(t)
	eventually(t, 5*time.Second, func() bool { return calls(t, b.s, "zadd") >= 4 && calls(t, b.s, "subscribe") == 1 }, "nobody waits")
	spoil(t, b)
	var inFlight []<-chan error
	for _, ctx := range []context.Context{ctx, forever} {
		inFlight = append(inFlight,
			async(t, func() error { return c.Ping(ctx) }),
			async(t, func() error { _, err := c.SetNEX(ctx, uuid.NewString(), "v", time.Second); return err }),
			async(t, func() error { return NewRedisLock(uuid.NewString(), c).Lock(ctx) }),
			async(t, func() error { return nested.Extend(ctx, 30*time.Second) }))
	}
	b.endAtCleanup(t)
	time.Sleep(20 * time.Millisecond) // so that the calls are under way: nothing tells

	start := time.Now()
	closed := []<-chan error{async(t, c.Close), async(t, c.Close), async(t, c.Close)}
	for i, result := range closed {
		require.NoError(t, resultWithin(t, result, time.Until(start.Add(5*time.Second))), "Close %d", i)
	}
	require.Less(t, time.Since(start), closeLimit, "Close")
	for i, result := range waits {
		require.ErrorIs(t, resultWithin(t, result, time.Until(start.Add(closeLimit))), ErrClosed, "wait %d", i)
	}
	for i, result := range inFlight {
		err := resultWithin(t, result, time.Until(start.Add(closeLimit)))
		if !alive {
			require.ErrorIs(t, err, ErrClosed, "call %d", i)
		}
	}
	for _, h := range []Hold{h, nested} {
		require.ErrorIs(t, endedWithin(t, h.Context(), time.Until(start.Add(closeLimit))), ErrClosed)
		require.ErrorIs(t, h.Err(), ErrClosed)
		require.Zero(t, h.ValidUntil())
		require.ErrorIs(t, h.Extend(t.Context(), time.Minute), ErrClosed)
		require.ErrorIs(t, h.Unlock(t.Context()), ErrClosed)
	}
	require.ErrorIs(t, shared.Unlock(t.Context()), ErrClosed)
	require.Less(t, time.Since(start), closeLimit+50*time.Millisecond)
	requireClosed(t, c)
}

// requireClosed checks that every call of a closed client fails.
func requireClosed(t testing.TB, c *Client) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, c.Close(), "closing again")
	require.ErrorIs(t, c.Ping(ctx), ErrClosed)
	_, err := c.SetNEX(ctx, "raw", "v", time.Second)
	require.ErrorIs(t, err, ErrClosed)
	_, err = c.Eval(ctx, NewScript("return 1"), nil)
	require.ErrorIs(t, err, ErrClosed)
	plain, reentrant := NewRedisLock("k", c, WithBlock()), NewReentrantLock("k", c, WithBlock())
	_, plainErr := plain.Acquire(ctx)
	_, reentrantErr := reentrant.TryAcquire(ctx)
	for _, err := range []error{
		plain.Lock(ctx), plain.TryLock(ctx), plain.Do(ctx, noWork), plainErr,
		reentrant.Lock(ctx), reentrant.TryLock(ctx), reentrant.TryDo(ctx, noWork), reentrantErr,
	} {
		require.ErrorIs(t, err, ErrClosed)
		require.False(t, IsRetryableErr(err))
	}
	require.NoError(t, plain.Validate(), "a handle stays valid")
}

func TestCloseOfAnUnusedClient(t *testing.T) {
	t.Parallel()
	c, err := NewClient("tcp", closedPort(t), "")
	require.NoError(t, err)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() { require.NoError(t, c.Close()) })
	}
	group.Wait()
	requireClosed(t, c)
	var none *Client
	require.ErrorIs(t, none.Close(), ErrInvalid)
	require.ErrorIs(t, none.Ping(t.Context()), ErrInvalid)
	require.ErrorIs(t, (&Client{}).Close(), ErrInvalid)
	require.ErrorIs(t, (&Client{}).Ping(t.Context()), ErrInvalid)
}

// A release that Close gives up is logged with its key, and with nothing else.
func TestCloseLogsWhatIsPending(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var log logBuffer
	c := newTestClient(t, s, log.option(), WithCommandTimeout(50*time.Millisecond))
	l := NewRedisLock("my key", c)
	require.NoError(t, l.Lock(t.Context()))
	s.Pause(t)
	require.ErrorIs(t, l.Unlock(t.Context()), ErrUnconfirmed)
	require.NoError(t, c.Close())
	s.Resume(t)
	require.Contains(t, log.String(), `key="my key"`)
}

// wrapped is a connection of the user's that can do the least.
type wrapped struct{ redis.Conn }

func TestUserPool(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dial := func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }
	for name, pool := range map[string]*redis.Pool{
		"Dial":        {Dial: dial},
		"DialContext": {DialContext: func(context.Context) (redis.Conn, error) { return dial() }},
		"wrapped connections": {Dial: func() (redis.Conn, error) {
			conn, err := dial()
			return wrapped{conn}, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pool.MaxIdle = 5
			c, err := NewClientPool(pool, WithKeyPrefix("test:"))
			require.NoError(t, err)
			require.NoError(t, c.Ping(t.Context()))
			require.NoError(t, c.Ping(unbounded(t)))
			l := NewReentrantLock(name, c, WithWatchdog(300*time.Millisecond))
			h, err := l.Acquire(t.Context())
			require.NoError(t, err)
			select {
			case <-h.Context().Done():
			case <-time.After(400 * time.Millisecond):
			}
			require.NoError(t, h.Err())
			require.NoError(t, h.Unlock(t.Context()))
			require.NoError(t, c.Close())
			requireClosed(t, c)

			conn := pool.Get()
			_, err = conn.Do("PING")
			require.NoError(t, err, "Close leaves it open")
			require.NoError(t, conn.Close())
			require.NoError(t, pool.Close())
		})
	}
}

// A Dial of the user's that does not end takes no longer than one of ours: the time limits of a lock hold all the same.
func TestUserDialThatBlocks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, knowsContext := range map[string]bool{"Dial": false, "DialContext": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &closing{s: s, block: make(chan struct{})}
			b.userClient(knowsContext)(t)
			defer func() { require.NoError(t, b.pool.Close()) }()
			defer func() { require.NoError(t, b.c.Close()) }()
			defer close(b.block)
			const lease = 300 * time.Millisecond
			l := NewRedisLock(name, b.c, WithWatchdog(lease))
			require.NoError(t, l.Lock(t.Context()))
			b.blocks.Store(true)
			defer putBack(b.c, []redis.Conn{b.pool.Get()})
			err := resultWithin(t, async(t, func() error { return l.Unlock(unbounded(t)) }), lease)
			require.Error(t, err, "Unlock")
			err = resultWithin(t, async(t, func() error {
				return NewRedisLock("other", b.c, WithWatchdog(lease)).TryLock(unbounded(t))
			}), 2*minConnect)
			require.Error(t, err, "TryLock")
		})
	}
}

// The user closes the pool while a lock is held. The hold goes on, over the engine's own connections.
func TestUserClosesThePool(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]bool{"fail": false, "wait": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			pool := &redis.Pool{MaxIdle: 3, MaxActive: 3, Wait: wait, Dial: func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }}
			c, err := NewClientPool(pool, WithKeyPrefix("test:"))
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			const lease = 200 * time.Millisecond
			h, err := NewRedisLock("k", c, WithWatchdog(lease)).Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, pool.Close())
			select {
			case <-h.Context().Done():
			case <-time.After(3 * lease):
			}
			require.NoError(t, h.Err())
			requireHeld(t, s, c, "k")

			before := infoField(t, s, "stats", "total_connections_received")
			for _, l := range []Mutex{NewRedisLock("other", c, WithBlock()), NewReentrantLock("other", c, WithBlock())} {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				err := l.Lock(ctx)
				cancel()
				require.ErrorContains(t, err, "closed pool")
				require.False(t, IsRetryableErr(err))
				require.Less(t, time.Since(start), time.Second)
			}
			require.LessOrEqual(t, infoField(t, s, "stats", "total_connections_received")-before, int64(3), "it spins")
			require.NoError(t, h.Unlock(t.Context()), "the cleaner's connection does it")
			requireFree(t, s, c, "k")
		})
	}
}

// Callers that take every connection starve neither renewals nor releases.
func TestFullPoolDoesNotStarveTheWatchdog(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]ClientOption{
		"fail": {WithMaxActive(4)},
		"wait": {WithMaxActive(4), WithWaitMode()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := newTestClient(t, s, opts...)
			const lease = 600 * time.Millisecond // an Unlock has a third of it, on a loaded machine too
			plain, err := NewRedisLock("p", c, WithWatchdog(lease)).Acquire(t.Context())
			require.NoError(t, err)
			reentrant, err := NewReentrantLock("r", c, WithWatchdog(lease)).Acquire(t.Context())
			require.NoError(t, err)
			defer putBack(c, borrow(t, c, 4))
			select {
			case <-plain.Context().Done():
			case <-reentrant.Context().Done():
			case <-time.After(3 * lease):
			}
			for _, h := range []Hold{plain, reentrant} {
				require.NoError(t, h.Err())
				require.NoError(t, h.Unlock(t.Context()))
			}
			requireFree(t, s, c, "p")
			requireFree(t, s, c, "r")
		})
	}
}

// Pairs leave nothing behind. Not parallel: it counts goroutines and bytes.
func TestPairsLeaveNothing(t *testing.T) {
	s := redistest.Start(t)
	c := newTestClient(t, s)
	const workers, pairs = 4, 2500
	round := func(n int) {
		var group sync.WaitGroup
		for i := range workers {
			group.Go(func() {
				plain, reentrant := NewRedisLock(fmt.Sprint("p", i), c), NewReentrantLock(fmt.Sprint("r", i), c)
				for k := range n {
					var l Mutex = plain
					if k%2 == 0 {
						l = reentrant
					}
					ctx := t.Context()
					if k%4 < 2 {
						ctx = unbounded(t)
					}
					if err := l.Lock(ctx); err != nil {
						t.Error(err)
						return
					}
					if err := l.Unlock(ctx); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	round(50)
	goroutines, bytes := runtime.NumGoroutine(), heap()
	round(pairs)
	eventually(t, time.Second, func() bool { return runtime.NumGoroutine() <= goroutines+5 }, "goroutines stay")
	require.Less(t, heap()-bytes, int64(1<<20), "bytes stay")
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(t, c.leases)
	require.Empty(t, c.owners)
	require.Empty(t, c.watchdog.pending())
	require.Empty(t, c.cleaner.pending())
	require.Equal(t, int64(0), s.Do(t, "DBSIZE"))
}

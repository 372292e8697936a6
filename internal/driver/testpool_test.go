package driver

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

const (
	testIdleTimeout    = time.Minute
	testDialTimeout    = 5 * time.Second
	testCommandTimeout = 3 * time.Second
)

// newTestPool returns a pool of the server with the defaults of a client. It is
// closed when the test ends.
func newTestPool(t testing.TB, s *redistest.Server, change ...func(*Config)) *Pool {
	t.Helper()
	c := &Config{
		Network: s.Network, Address: s.Address, Password: new(string),
		MaxIdle: 10, IdleTimeout: testIdleTimeout, DialTimeout: testDialTimeout, CommandTimeout: testCommandTimeout,
	}
	for _, f := range change {
		f(c)
	}
	d := NewPool(c)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func withDatabase(n int) func(*Config) { return func(c *Config) { c.Database = n } }

func withPassword(text string) func(*Config) {
	return func(c *Config) { c.Password = &text }
}

func withCommandTimeout(d time.Duration) func(*Config) {
	return func(c *Config) { c.CommandTimeout = d }
}

// waitingForOne makes callers wait for the one connection.
func waitingForOne(c *Config) { c.MaxActive, c.Wait = 1, true }

// takeConns takes n connections out of the pool, as calls do.
func takeConns(t testing.TB, d *Pool, n int) []redis.Conn {
	t.Helper()
	conns := make([]redis.Conn, n)
	for i := range conns {
		conn, err := d.Connect(t.Context(), 0)
		require.NoError(t, err)
		conns[i] = conn
	}
	return conns
}

func putConns(d *Pool, conns []redis.Conn) {
	for _, conn := range conns {
		d.PutBack(conn)
	}
}

// warmPool leaves n idle connections, used once, in the pool.
func warmPool(t testing.TB, d *Pool, n int) {
	t.Helper()
	conns := takeConns(t, d, n)
	for _, conn := range conns {
		_, err := conn.Do("PING")
		require.NoError(t, err)
	}
	putConns(d, conns)
}

func linkOf(t testing.TB, d *Pool) *poolLink {
	t.Helper()
	l := d.Link().(*poolLink)
	t.Cleanup(l.Close)
	return l
}

func echo(text string) Request { return Request{Cmd: "ECHO", Args: []any{text}} }

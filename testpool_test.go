package relock

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
func newTestPool(t testing.TB, s *redistest.Server, change ...func(*driverConfig)) *poolDriver {
	t.Helper()
	c := &driverConfig{
		network: s.Network, address: s.Address, password: new(string),
		maxIdle: 10, idleTimeout: testIdleTimeout, dialTimeout: testDialTimeout, commandTimeout: testCommandTimeout,
	}
	for _, f := range change {
		f(c)
	}
	d := newOwnPool(c)
	t.Cleanup(func() { require.NoError(t, d.close()) })
	return d
}

func withDatabase(n int) func(*driverConfig) { return func(c *driverConfig) { c.database = n } }

func withPassword(text string) func(*driverConfig) {
	return func(c *driverConfig) { c.password = &text }
}

func withCommandTimeout(d time.Duration) func(*driverConfig) {
	return func(c *driverConfig) { c.commandTimeout = d }
}

// waitingForOne makes callers wait for the one connection.
func waitingForOne(c *driverConfig) { c.maxActive, c.wait = 1, true }

// takeConns takes n connections out of the pool, as calls do.
func takeConns(t testing.TB, d *poolDriver, n int) []redis.Conn {
	t.Helper()
	conns := make([]redis.Conn, n)
	for i := range conns {
		conn, err := d.connect(t.Context(), 0)
		require.NoError(t, err)
		conns[i] = conn
	}
	return conns
}

func putConns(d *poolDriver, conns []redis.Conn) {
	for _, conn := range conns {
		d.putBack(conn)
	}
}

// warmPool leaves n idle connections, used once, in the pool.
func warmPool(t testing.TB, d *poolDriver, n int) {
	t.Helper()
	conns := takeConns(t, d, n)
	for _, conn := range conns {
		_, err := conn.Do("PING")
		require.NoError(t, err)
	}
	putConns(d, conns)
}

func linkOf(t testing.TB, d *poolDriver) *poolLink {
	t.Helper()
	l := d.link().(*poolLink)
	t.Cleanup(l.close)
	return l
}

func echo(text string) request { return request{cmd: "ECHO", args: []any{text}} }

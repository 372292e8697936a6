package relock

import (
	"context"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// patient is a client whose holders have longer to learn why they were refused.
func patient(c *Client) *Client {
	c.engine.SetReasonLimit(testkit.Patience)
	return c
}

// unbounded is a context that cannot end.
func unbounded(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }

// sharing makes all commands of locks share one connection, not only those beyond the first few.
func sharing(c *Client) *Client {
	c.engine.Driver.(*driver.Pool).Apart = 0
	return c
}

// poolOf is the pool below a client.
func poolOf(c *Client) *redis.Pool { return c.engine.Driver.(*driver.Pool).Redis }

// borrow takes n connections out of the client's pool, as its calls do.
func borrow(t testing.TB, c *Client, n int) []redis.Conn {
	t.Helper()
	conns := make([]redis.Conn, n)
	for i := range conns {
		conn, err := c.engine.Driver.(*driver.Pool).Connect(t.Context(), 0)
		require.NoError(t, err)
		conns[i] = conn
	}
	return conns
}

func putBack(c *Client, conns []redis.Conn) {
	for _, conn := range conns {
		c.engine.Driver.(*driver.Pool).PutBack(conn)
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

// closedPort is an address where nobody listens.
func closedPort(t testing.TB) string {
	t.Helper()
	return "127.0.0.1:" + redistest.FreePort(t)
}

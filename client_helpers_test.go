package relock

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// patient is a client whose holders have longer to learn why they were refused.
func patient(c *Client) *Client {
	c.reasonLimit = queuePatience
	return c
}

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
	return "127.0.0.1:" + redistest.FreePort(t)
}

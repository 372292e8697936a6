package conns_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
)

// borrow takes n connections out of the client's pool, as its calls do.
func borrow(t testing.TB, c *relock.Client, n int) []redis.Conn {
	t.Helper()
	conns := make([]redis.Conn, n)
	for i := range conns {
		conn, err := locktest.PoolOf(c).Connect(t.Context())
		require.NoError(t, err)
		conns[i] = conn
	}
	return conns
}

// putBack returns connections to the client's pool.
func putBack(c *relock.Client, conns []redis.Conn) {
	for _, conn := range conns {
		locktest.PoolOf(c).PutBack(conn)
	}
}

// warm leaves n idle connections, used once, in the client's pool.
func warm(t testing.TB, c *relock.Client, n int) {
	t.Helper()
	conns := borrow(t, c, n)
	for _, conn := range conns {
		_, err := conn.Do("PING")
		require.NoError(t, err)
	}
	putBack(c, conns)
}

package locktest

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
)

// PoolOf returns the pool below a client.
func PoolOf(c *relock.Client) *redis.Pool { return Engine(c).Driver.(*driver.Pool).Redis }

// Borrow takes n connections out of the client's pool, as its calls do.
func Borrow(t testing.TB, c *relock.Client, n int) []redis.Conn {
	t.Helper()
	conns := make([]redis.Conn, n)
	for i := range conns {
		conn, err := Engine(c).Driver.(*driver.Pool).Connect(t.Context(), 0)
		require.NoError(t, err)
		conns[i] = conn
	}
	return conns
}

// PutBack returns connections to the client's pool.
func PutBack(c *relock.Client, conns []redis.Conn) {
	for _, conn := range conns {
		Engine(c).Driver.(*driver.Pool).PutBack(conn)
	}
}

// Warm leaves n idle connections, used once, in the client's pool.
func Warm(t testing.TB, c *relock.Client, n int) {
	t.Helper()
	conns := Borrow(t, c, n)
	for _, conn := range conns {
		_, err := conn.Do("PING")
		require.NoError(t, err)
	}
	PutBack(c, conns)
}

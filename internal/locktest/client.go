package locktest

import (
	"context"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// Patient is a client whose holders have longer to learn why they were refused.
func Patient(c *relock.Client) *relock.Client {
	Engine(c).SetReasonLimit(testkit.Patience)
	return c
}

// Unbounded is a context that cannot end.
func Unbounded(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }

// Sharing makes all commands of locks share one connection, not only those beyond the first few.
func Sharing(c *relock.Client) *relock.Client {
	Engine(c).Driver.(*driver.Pool).Apart = 0
	return c
}

// PoolOf is the pool below a client.
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

// ClosedPort is an address where nobody listens.
func ClosedPort(t testing.TB) string {
	t.Helper()
	return "127.0.0.1:" + redistest.FreePort(t)
}

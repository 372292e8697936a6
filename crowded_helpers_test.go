package relock

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// crowded is a server that accepts no further connection.
type crowded struct {
	control redis.Conn // of the test's own, from before
	open    map[string]bool
}

// fillUp lets the server accept no connection beyond those that are open now.
func fillUp(t testing.TB, s *redistest.Server) *crowded {
	t.Helper()
	control := s.Dial(t)
	t.Cleanup(func() { _ = control.Close() })
	_, err := control.Do("PING")
	require.NoError(t, err)
	full := &crowded{control, connections(t, control)}
	_, err = control.Do("CONFIG", "SET", "maxclients", len(full.open)+1)
	require.NoError(t, err)
	_, err = s.Try(t, "PING")
	require.Error(t, err, "the server is not full")
	return full
}

// has reports whether a lock of c is in Redis.
func (f *crowded) has(t testing.TB, c *Client, key string) bool {
	t.Helper()
	n, err := redis.Int(f.control.Do("EXISTS", keyOf(c, key)))
	require.NoError(t, err)
	return n == 1
}

// calls is how often a command was called.
func (f *crowded) calls(t testing.TB, command string) int {
	t.Helper()
	text, err := redis.String(f.control.Do("INFO", "commandstats"))
	require.NoError(t, err)
	return callsIn(t, text, command)
}

// requireSame checks that all went over the connections that were there.
func (f *crowded) requireSame(t testing.TB) {
	t.Helper()
	require.Equal(t, f.open, connections(t, f.control), "connections were given up")
}

// asUserPool returns a client on a pool of the user's.
func asUserPool(t testing.TB, s *redistest.Server, pool *redis.Pool, opts ...ClientOption) *Client {
	t.Helper()
	pool.Dial = func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }
	t.Cleanup(func() { _ = pool.Close() })
	c, err := NewClientPool(pool, append([]ClientOption{WithKeyPrefix("test:")}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

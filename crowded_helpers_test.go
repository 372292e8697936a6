package relock

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// hasKey reports whether a lock of c is in Redis.
func hasKey(t testing.TB, f *testkit.Full, c *Client, key string) bool {
	t.Helper()
	n, err := redis.Int(f.Control.Do("EXISTS", keyOf(c, key)))
	require.NoError(t, err)
	return n == 1
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

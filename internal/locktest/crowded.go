package locktest

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// HasKey reports whether a lock of c is in Redis.
func HasKey(t testing.TB, f *testkit.Full, c *relock.Client, key string) bool {
	t.Helper()
	n, err := redis.Int(f.Control.Do("EXISTS", KeyOf(c, key)))
	require.NoError(t, err)
	return n == 1
}

// AsUserPool returns a client on a pool of the user's. The pool dials the
// server unless it has a dial.
func AsUserPool(t testing.TB, s *redistest.Server, pool *redis.Pool, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	if pool.Dial == nil && pool.DialContext == nil {
		pool.Dial = func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }
	}
	t.Cleanup(func() { _ = pool.Close() })
	c, err := relock.NewClientPool(pool, append([]relock.ClientOption{relock.WithKeyPrefix("test:")}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

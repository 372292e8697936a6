package goredis_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
)

// The TLS of rdb is used, and its mistakes are errors.
func TestTLSOfTheUser(t *testing.T) {
	t.Parallel()
	_, address, config := redistest.StartTLS(t)
	c := newClient(t, redis.NewClient(&redis.Options{Addr: address, TLSConfig: config}))
	require.NoError(t, relock.NewRedisLock("name", c).Do(t.Context(), func(context.Context) error { return nil }))

	stranger := config.Clone()
	stranger.ServerName = "elsewhere.test"
	rdb := redis.NewClient(&redis.Options{Addr: address, TLSConfig: stranger})
	defer rdb.Close() //nolint:errcheck // it has no connection
	err := relock.NewRedisLock("name", newClientOnly(t, rdb)).Do(t.Context(), func(context.Context) error { return nil })
	require.ErrorContains(t, err, "elsewhere.test")
}

// The TLS of a Cluster client is used, too.
func TestTLSOfACluster(t *testing.T) {
	t.Parallel()
	address, config := redistest.StartClusterTLS(t, "")
	c := newClient(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, TLSConfig: config}))
	require.NoError(t,
		relock.NewRedisLock("name", c, relock.WithBlock()).Do(t.Context(), func(context.Context) error { return nil }))
}

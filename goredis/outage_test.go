package goredis_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A wait on a wrong port is logged.
func TestWaitWithoutAServerIsLogged(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:" + redistest.FreePort(t)
	rdb := changed(t, redis.NewClient, &redis.Options{Addr: address}, nil)
	log := &testkit.Log{}
	c := newClientOnly(t, rdb, relock.WithLogger(log.Logger()))
	ctx, cancel := context.WithCancel(t.Context())
	call := testkit.Async(t, func() error { return relock.NewRedisLock("k", c, relock.WithBlock()).Lock(ctx) })
	testkit.Eventually(t, testkit.Patience, func() bool {
		return log.Lines("level=WARN", "no usable server for waiting calls", " server="+address+" ",
			"connection refused") == 1
	}, "it is logged")
	cancel()
	require.ErrorIs(t, testkit.ResultWithin(t, call, testkit.Patience), context.Canceled)
}

// Ping finds a replica, which grants no locks.
func TestPingOfAReplica(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	c := newClientOnly(t, changed(t, redis.NewClient, &redis.Options{Addr: s.Address}, nil))
	require.NoError(t, c.Ping(t.Context()))
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	err := c.Ping(t.Context())
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorContains(t, err, "a replica of 127.0.0.1:1")
}

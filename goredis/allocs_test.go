package goredis_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A lock and an unlock over a client of go-redis allocate what they allocate
// over a client of relock. It is not parallel, because others would count.
func TestAllocationsOfAPair(t *testing.T) {
	s := redistest.StartTCP(t)
	native, err := relock.NewClient(s.Network, s.Address, "")
	require.NoError(t, err)
	defer native.Close() //nolint:errcheck // the server ends, too
	over := newClient(t, redis.NewClient(&redis.Options{Addr: s.Address}))
	allocations := func(c *relock.Client) float64 {
		lock := relock.NewRedisLock("name", c)
		return testing.AllocsPerRun(500, func() {
			require.NoError(t, lock.Do(t.Context(), func(context.Context) error { return nil }))
		})
	}
	require.InDelta(t, allocations(native), allocations(over), 1)
}

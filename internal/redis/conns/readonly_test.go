package conns

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// leadsOn is a server, and a dialer whose connections after the first lead to
// it. The first one leads to its replica, the old master.
func leadsOn(t testing.TB) (next *redistest.Server, old func(*driver.Config)) {
	next, replica := redistest.StartTCP(t), redistest.StartTCP(t)
	replica.Follow(t, next)
	return next, func(c *driver.Config) {
		var dials atomic.Int64
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) == 1 {
				network, address = replica.Network, replica.Address
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
}

// A connection to the old master costs one call: none that waits for it gets
// it, and the same READONLY.
func TestReadOnlyCostsOneCall(t *testing.T) {
	t.Parallel()
	next, old := leadsOn(t)
	for range 200 {
		d := newTestPool(t, next, waitingForOne, old)
		warmPool(t, d, 1)
		var refused atomic.Int64
		Together(4, func(int) {
			for range 3 {
				if driver.IsReadOnly(d.Call(t.Context(), driver.Limits{}, setNX).Err) {
					refused.Add(1)
				}
			}
		})
		require.EqualValues(t, 1, refused.Load())
		require.NoError(t, d.Close())
	}
}

// It costs one batch, too, that goes over it because its own dial takes long.
func TestReadOnlyCostsOneBatch(t *testing.T) {
	t.Parallel()
	next, old := leadsOn(t)
	d := newTestPool(t, next, waitingForOne, old)
	warmPool(t, d, 1)
	dial := d.dial
	d.dial = func(ctx context.Context) (redis.Conn, error) { // of links
		<-ctx.Done()
		return dial(ctx)
	}
	limit := driver.BatchLimit{Own: testkit.Patience, Borrowed: 10 * driver.MinLimit}
	require.True(t, driver.IsReadOnly(linkOf(t, d).Pipeline(limit, []driver.Request{setNX})[0].Err))
	require.NoError(t, d.Call(t.Context(), driver.Limits{}, setNX).Err)
}

var setNX = driver.SetNX("k", "v", time.Minute)

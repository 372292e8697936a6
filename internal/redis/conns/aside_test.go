package conns

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// silentLater makes each connection after the first n one that is accepted and
// never answered.
func silentLater(t testing.TB, n int64) func(*driver.Config) {
	l := redistest.Listen(t)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return func(c *driver.Config) {
		var dials atomic.Int64
		c.DialTimeout = testkit.Patience
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) > n {
				network, address = "tcp", l.Addr().String()
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
}

// Calls beyond those that have a connection each take turns over one of the
// pool, while the shared connection cannot be opened.
func TestCallsWithoutTheSharedConnection(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(testing.TB) *Pool{
		"its dial hangs": func(t testing.TB) *Pool { return newTestPool(t, redistest.Start(t), hangingLater(1)) },
		"its dial hangs, callers wait": func(t testing.TB) *Pool {
			return newTestPool(t, redistest.Start(t), waitingForOne, hangingLater(1))
		},
		"it is silent": func(t testing.TB) *Pool { return newTestPool(t, redistest.Start(t), silentLater(t, 1)) },
	}, func(t *testing.T, _ string, open func(testing.TB) *Pool) {
		d := open(t)
		warmPool(t, d, 1)
		d.SetApart(0)
		Together(4*crowd, func(int) {
			for n := 0; n < 10 && assert.NoError(t, d.Send(t.Context(), driver.Limits{}, echo("x")).Err); n++ {
			}
		})
	})
}

// A call uses an idle connection if that of the others is refused.
func TestCallWhoseSharedConnectionIsRefused(t *testing.T) {
	t.Parallel()
	d, _ := usersPoolBehind(t, 1)
	d.SetApart(0)
	require.NoError(t, d.Send(t.Context(), driver.Limits{}, echo("x")).Err)
}

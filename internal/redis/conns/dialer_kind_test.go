package conns

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A user's dialer that returns plain sockets costs no goroutine for each call.
// Until there was one, and if one of them was another kind, it does.
func TestKindOfAUsersConnections(t *testing.T) {
	t.Parallel()
	plain := true
	d := newTestPool(t, redistest.StartTCP(t), func(c *driver.Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if !plain {
				conn = struct{ net.Conn }{conn}
			}
			return conn, err
		}
	})
	require.False(t, d.dialer.Interruptible(), "not known yet")
	for _, next := range []struct{ plain, waits bool }{{true, true}, {false, false}, {true, false}} {
		plain = next.plain
		conn, err := d.dial(t.Context())
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.Equal(t, next.waits, d.dialer.Interruptible(), next)
	}
}

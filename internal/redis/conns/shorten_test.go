package conns

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A wait that is shortened while the link still dials is shortened once the
// pipeline is sent.
func TestShortenDuringADial(t *testing.T) {
	t.Parallel()
	var l driver.Link
	d, proxy := newPoolBehind(t, redistest.Start(t), func(c *driver.Config) {
		c.CommandTimeout = time.Minute
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			l.Shorten(time.Now().Add(driver.MinLimit))
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	proxy.On(faults.Command("ECHO"), 1, faults.DropRequest)
	l = d.Link()
	defer l.Close()
	answers := testkit.Async(t, func() error {
		return l.Pipeline(driver.BatchLimit{Own: time.Minute, Borrowed: time.Minute}, []driver.Request{echo("x")})[0].Err
	})
	require.ErrorIs(t, testkit.ResultWithin(t, answers, testkit.Patience), driver.ErrTimeout)
}

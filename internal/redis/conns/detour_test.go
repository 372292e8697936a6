package conns

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// hangingLater makes each dial after the first n hang until its limit.
func hangingLater(n int64) func(*driver.Config) {
	return func(c *driver.Config) {
		var dials atomic.Int64
		c.DialTimeout = testkit.Patience
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) > n {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
}

// A batch whose link cannot connect goes over the connection that a caller
// returns. Other callers get it after that.
func TestReturnedConnectionIsForTheBatch(t *testing.T) {
	t.Parallel()
	d := newTestPool(t, redistest.Start(t), waitingForOne, hangingLater(1))
	l := linkOf(t, d)
	limit := driver.BatchLimit{Own: testkit.Patience, Borrowed: 10 * driver.MinLimit}
	for range 3 {
		busy := takeConns(t, d, 1)[0]
		answers := testkit.Async(t, func() error { return l.Pipeline(limit, []driver.Request{echo("x")})[0].Err })
		testkit.Eventually(t, testkit.Patience, func() bool {
			select {
			case d.returned <- busy: // as putBack does
				return true
			default:
				return false
			}
		}, "the batch waits for it")
		require.NoError(t, testkit.ResultWithin(t, answers, testkit.Patience))
	}
	testkit.Eventually(t, testkit.Patience, func() bool { return d.InUse() == 0 && d.Idle() == 1 }, "returned")
}

// A batch whose first connection is silent goes over another one in time. Each
// request may have been executed by the first copy, and still may be.
func TestSecondCopyOfABatch(t *testing.T) {
	t.Parallel()
	d, proxy := newPoolBehind(t, redistest.Start(t), hangingLater(2))
	warmPool(t, d, 2)
	proxy.On(faults.Command("ECHO"), 1, faults.DropAnswer)
	const limit = 2 * time.Second
	outcomes := linkOf(t, d).Pipeline(driver.BatchLimit{Own: limit, Borrowed: limit}, []driver.Request{echo("x"), echo("x")})
	requireAnswered(t, outcomes)
	require.Equal(t, 3, proxy.Count(faults.Command("ECHO"))-1, "one copy without its second request's answer, and one with both")
	for _, o := range outcomes {
		require.True(t, o.Resent)
		require.True(t, script.Indeterminate{}.Add(o).IsLate())
	}
}

// While all dials of a link are late, each has twice the time of the one before
// it, up to the dial timeout.
func TestDialsOfALinkHaveEverMoreTime(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		dials := make(chan time.Duration, 4)
		d := newTestPool(t, &redistest.Server{Network: "tcp", Address: "10.0.0.1:1"}, func(c *driver.Config) {
			c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				at, _ := ctx.Deadline()
				dials <- time.Until(at)
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		l := linkOf(t, d)
		for _, limit := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, testDialTimeout} {
			require.ErrorIs(t, l.Pipeline(driver.BatchLimit{Own: time.Second, Borrowed: time.Second}, []driver.Request{echo("x")})[0].Err, driver.ErrTimeout)
			require.Equal(t, limit, <-dials)
		}
	})
}

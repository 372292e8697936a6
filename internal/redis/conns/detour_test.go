package conns

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
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
	requests := []driver.Request{echo("x"), echo("x")}
	outcomes := linkOf(t, d).Pipeline(driver.BatchLimit{Own: limit, Borrowed: limit}, requests)
	requireAnswered(t, outcomes)
	require.Equal(t, 3, proxy.Count(faults.Command("ECHO"))-1,
		"one copy without its second request's answer, and one with both")
	for _, o := range outcomes {
		require.True(t, o.Resent)
		require.True(t, script.Indeterminate{}.Add(o).IsLate())
	}
}

// usersPoolBehind is a pool of the user's with n idle connections, which it
// doesn't test. No other one can be opened.
func usersPoolBehind(t testing.TB, n int64) (*Pool, *faults.Proxy) {
	t.Helper()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	var dials atomic.Int64
	pool := &redis.Pool{MaxIdle: int(n), Dial: func() (redis.Conn, error) {
		if dials.Add(1) > n {
			return nil, syscall.ECONNREFUSED
		}
		return redis.Dial(proxy.Network, proxy.Address)
	}}
	d := FromPool(&driver.Config{DialTimeout: testDialTimeout, CommandTimeout: testCommandTimeout}, pool)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	warmPool(t, d, int(n))
	return d, proxy
}

// A batch is over as soon as nothing can help it any more: the open connections
// break, one after the other. Its worker has others to renew.
func TestBatchThatNothingHelpsIsOver(t *testing.T) {
	t.Parallel()
	d, proxy := usersPoolBehind(t, maxCopies+2)
	proxy.On(faults.Command("ECHO"), faults.Every, faults.CutAfter)
	limit := driver.BatchLimit{Own: testkit.Patience, Borrowed: 100 * testkit.Patience}
	outcome := testkit.Async(t, func() error {
		return linkOf(t, d).Pipeline(limit, []driver.Request{echo("x")})[0].Err
	})
	require.Error(t, testkit.ResultWithin(t, outcome, testkit.Patience))
	require.Equal(t, maxCopies, proxy.Count(faults.Command("ECHO")))
}

// A connection that comes back right after the look for one is used, although
// no caller has another one to return.
func TestConnectionThatComesBackBehindALook(t *testing.T) {
	t.Parallel()
	d, _ := usersPoolBehind(t, 1)
	l := linkOf(t, d)
	o := &opening{err: syscall.ECONNREFUSED}
	around := l.newDetour(o, testkit.Patience, []driver.Request{echo("x")})
	around.dialled, around.lent = nil, d.returned // the state after such a look
	outcomes, connected := around.run(o)
	require.False(t, connected)
	require.Len(t, outcomes, 1, "the batch was not sent")
	requireAnswered(t, outcomes)
}

// A batch waits for a connection that a caller has, and its link's dial fails.
// It does not go over the shared connection for that, which may be silent.
func TestFailedDialEndsNoWaitForAConnection(t *testing.T) {
	t.Parallel()
	d := newTestPool(t, redistest.Start(t))
	d.SetApart(0)
	require.NoError(t, d.Send(t.Context(), driver.Limits{}, echo("x")).Err)
	busy := takeConns(t, d, 1)[0]
	o, ended := &opening{err: syscall.ECONNREFUSED}, make(chan struct{})
	around := linkOf(t, d).newDetour(o, testkit.Patience, []driver.Request{echo("x")})
	around.dialled, around.lent, around.waited = ended, d.returned, true // the state of such a wait
	around.timer.Reset(testkit.Patience)
	outcomes := testkit.Async(t, func() error {
		all, _ := around.run(o)
		return all[0].Err
	})
	ended <- struct{}{}
	select {
	case d.returned <- busy: // as putBack does
		require.NoError(t, testkit.ResultWithin(t, outcomes, testkit.Patience))
	case err := <-outcomes:
		d.putBack(busy)
		require.NoError(t, err)
	}
	require.False(t, around.shared)
}

// The connection on which a batch was answered carries no other copy of it.
func TestAnsweredBatchIsNotSentAgain(t *testing.T) {
	t.Parallel()
	d, proxy := newPoolBehind(t, redistest.Start(t), hangingLater(1))
	warmPool(t, d, 1)
	const limit = 2 * time.Second
	proxy.On(faults.Command("ECHO"), 1, faults.Delay(limit/4)) // the batch waits for another connection by then
	outcomes := linkOf(t, d).Pipeline(driver.BatchLimit{Own: limit, Borrowed: limit}, []driver.Request{echo("x")})
	requireAnswered(t, outcomes)
	require.False(t, outcomes[0].Resent)
	testkit.Eventually(t, testkit.Patience, func() bool { return d.InUse() == 0 }, "the connection comes back")
	require.Equal(t, 1, proxy.Count(faults.Command("ECHO")))
}

// An answer counts, though the connection breaks before the next one, and
// another copy is silent.
func TestAnswersOfABrokenCopyCount(t *testing.T) {
	t.Parallel()
	d, proxy := usersPoolBehind(t, 2)
	proxy.On(faults.Command("ECHO"), 2, faults.CutAfter)
	proxy.On(faults.Command("ECHO"), 3, faults.DropAnswer)
	const limit = time.Second
	requests := []driver.Request{echo("x"), echo("x")}
	outcomes := linkOf(t, d).Pipeline(driver.BatchLimit{Own: limit, Borrowed: limit}, requests)
	requireAnswered(t, outcomes[:1])
	require.Error(t, outcomes[1].Err)
	for _, o := range outcomes {
		require.True(t, o.Resent)
	}
}

// A silent server costs few connections. None is sent to with little time left.
func TestLateCopiesAreNotSent(t *testing.T) {
	t.Parallel()
	const conns, limit = 6, 1600 * time.Millisecond
	d, proxy := newPoolBehind(t, redistest.Start(t), hangingLater(conns))
	warmPool(t, d, conns)
	proxy.On(faults.Command("ECHO"), faults.Every, faults.DropAnswer)
	outcomes := linkOf(t, d).Pipeline(driver.BatchLimit{Own: limit, Borrowed: limit}, []driver.Request{echo("x")})
	require.True(t, driver.IsTimeout(outcomes[0].Err))
	require.True(t, outcomes[0].Resent)
	require.LessOrEqual(t, proxy.Count(faults.Command("ECHO")), 3, "at 0, 2 and 6 sixteenths of the limit")
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
			outcomes := l.Pipeline(driver.BatchLimit{Own: time.Second, Borrowed: time.Second}, []driver.Request{echo("x")})
			require.ErrorIs(t, outcomes[0].Err, driver.ErrTimeout)
			require.Equal(t, limit, <-dials)
		}
	})
}

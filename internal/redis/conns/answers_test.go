package conns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A server that says more than it was asked as it is greeted is not used.
func TestGreetingWithTwoAnswers(t *testing.T) {
	t.Parallel()
	s := redistest.ServeText(t, "+OK\r\n+OK\r\n", 1)
	for database := range 2 {
		d := newTestPool(t, s, withPassword("pw"), withDatabase(database))
		require.ErrorIs(t, d.Call(t.Context(), driver.Limits{}, echo("x")).Err, wire.ErrUnasked)
	}
}

// A dial that ends just as an answer comes reads no state that the reader
// writes: redigo leaves a goroutine behind, which reads until it sees the end.
// Only the race detector finds that.
func TestDialEndsAsItsAnswerComes(t *testing.T) {
	t.Parallel()
	const delay = 2 * time.Millisecond
	d, proxy := newPoolBehind(t, redistest.Start(t), withDatabase(1))
	proxy.On(faults.Command("SELECT"), faults.Every, faults.Delay(delay))
	for range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), delay+rand.N(delay))
		if opened, err := d.dialer.Dial(ctx); err == nil {
			_ = opened.Close() // nothing was asked of it
		}
		cancel()
	}
}

// Of answers that come together, one more than there were requests, none is
// taken. What was taken in before the one too many came is not taken either.
func TestBatchWithAnAnswerTooMany(t *testing.T) {
	t.Parallel()
	together := linkOf(t, newTestPool(t, redistest.ServeText(t, ":1\r\n:1\r\n:0\r\n", 2)))
	later := linkOf(t, newTestPool(t, redistest.Start(t)))
	text := io.MultiReader(strings.NewReader(":1\r\n"), strings.NewReader(":1\r\n:0\r\n"))
	later.conn = wire.NewConn(testkit.TextConn{Text: text}, nil, false, 0)
	for _, link := range []*poolLink{together, later} {
		for _, o := range link.Pipeline(patient, []driver.Request{echo("x"), echo("y")}) {
			require.ErrorIs(t, o.Err, wire.ErrUnasked)
			require.True(t, o.Unanswered())
		}
	}
}

// The words of each server for an error are known. A command that is refused in
// a script is refused in other words than the keys of the script.
// Servers before 7.0 put the error of a command in a script behind the name of
// the script, once or twice.
func TestErrorLinesOfEachServer(t *testing.T) {
	t.Parallel()
	const (
		call    = "ERR Error running script (call to f_1028a5dba704e1d8a01fd96efeba25bb78f62df2): "
		sha     = " script: 1028a5dba704e1d8a01fd96efeba25bb78f62df2, on @user_script:4."
		foreign = "-WRONGTYPE Operation against a key holding the wrong kind of value"
	)
	for _, tt := range []struct {
		line              string
		code              string
		retryable, denied bool
		keys              bool // of a script are refused
	}{
		{line: "TRYAGAIN Multiple keys request during rehashing of slot", code: "TRYAGAIN", retryable: true, keys: true},
		{
			line: "NOPERM this user has no permissions to access one of the keys used as arguments",
			code: "NOPERM", denied: true, keys: true,
		}, // Redis 6.2 and 7.0
		{line: "NOPERM No permissions to access a key", code: "NOPERM", denied: true, keys: true}, // and newer
		{
			line: "NOPERM this user has no permissions to run the 'evalsha' command or its subcommand",
			code: "NOPERM", denied: true,
		},
		{line: call +
			"@user_script:5: -OOM command not allowed when used memory > 'maxmemory'.", code: "OOM", retryable: true},
		{line: call + "@user_script:5: @user_script: 5: " +
			"-OOM command not allowed when used memory > 'maxmemory'.", code: "OOM", retryable: true},
		{line: call + "@user_script:4: @user_script: 4: " +
			"-READONLY You can't write against a read only replica. ", code: "READONLY", retryable: true},
		{line: "@user_script: 4: -READONLY You can't write against a read only replica.", code: "READONLY", retryable: true},
		{line: call + "@user_script:4: @user_script: 4: " +
			"-MISCONF Redis is configured to save RDB snapshots", code: "MISCONF", retryable: true},
		{line: call + "@user_script:4: @user_script: 4: " +
			"-NOREPLICAS Not enough good replicas to write.", code: "NOREPLICAS", retryable: true},
		{line: call + "@user_script:4: " +
			"TRYAGAIN Multiple keys request during rehashing of slot", code: "TRYAGAIN", retryable: true, keys: true},
		{line: call + "@user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value", code: "WRONGTYPE"},
		{line: call + "@user_script:1: " + foreign, code: "WRONGTYPE"},
		{line: call + "@user_script:7: @user_script: 7: " +
			"The user executing the script can't run this command or subcommand", code: "The", denied: true},
		{line: call + "@user_script:7: @user_script: 7: -NOPERM this user has no permissions", code: "NOPERM", denied: true},
		{line: call + "@user_script:3: user_script:3: attempt to index a nil value", code: "user_script:3:"},
		{line: "OOM command not allowed when used memory > 'maxmemory'." + sha, code: "OOM", retryable: true},
		{line: "READONLY You can't write against a read only replica." + sha, code: "READONLY", retryable: true},
		{line: "WRONGTYPE Operation against a key holding the wrong kind of value" + sha, code: "WRONGTYPE"},
		{line: "ERR The user executing the script can't run this command or subcommand" + sha, code: "ERR", denied: true},
		{line: "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments" +
			sha, code: "ERR", denied: true},
		{line: "ERR The user executing the script can't publish to the channel mentioned in the command" +
			sha, code: "ERR", denied: true},
		{line: "ERR ACL failure in script: User app has no permissions to run the 'pexpire' command" +
			sha, code: "ERR", denied: true},
		{line: "ERR ACL failure in script: No permissions to access a key" + sha, code: "ERR", denied: true},
		{line: "ERR ACL failure in script: No permissions to access a channel" + sha, code: "ERR", denied: true},
		{line: "NOPERM User app has no permissions to run the 'evalsha' command", code: "NOPERM", denied: true},
		{line: "ERR invalid password", code: "ERR", denied: true},
		{line: "ERR Client sent AUTH, but no password is set", code: "ERR", denied: true},
		{
			line: "ERR AUTH <password> called without any password configured for the default user. " +
				"Are you sure your configuration is correct?",
			code: "ERR", denied: true,
		},
		{line: "WRONGPASS invalid username-password pair or user is disabled.", code: "WRONGPASS", denied: true},
		{line: "NOAUTH Authentication required.", code: "NOAUTH", denied: true},
		{line: "ERR unknown command 'EVALSHA', with args beginning with: 'LOADING' '1' ", code: "ERR"},
		{line: "ERR unknown command `EVALSHA`, with args beginning with: `@user_script:5: -OOM`, ", code: "ERR"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			require.Equal(t, tt.code, driver.Code(redis.Error(tt.line)))
			err := driver.Sanitize(redis.Error(tt.line))
			require.Equal(t, tt.retryable, driver.IsTransient(err))
			require.Equal(t, tt.denied, errors.Is(err, errs.ErrDenied))
			require.Equal(t, tt.keys, driver.AreKeysRefused(err))
			require.NotContains(t, err.Error(), "with args")
			var line redis.Error
			require.ErrorAs(t, err, &line, "the server's own words are there")
		})
	}
	require.True(t,
		driver.IsNoScript(fmt.Errorf("lock: %w", redis.Error("NOSCRIPT No matching script. Please use EVAL."))))
	require.False(t, driver.IsNoScript(redis.Error("ERR NOSCRIPT")))
	require.False(t, driver.IsNoScript(nil))
	require.False(t, driver.AreKeysRefused(io.EOF))
}

func requireAnswered(t testing.TB, outcomes []driver.Result) {
	t.Helper()
	for _, o := range outcomes {
		require.NoError(t, o.Err)
		require.Equal(t, []byte("x"), o.Reply)
	}
}

// A batch waits a second for a dial that hangs, counted from the dial's start.
// Its sending time is that on the borrowed connection. The dial's connection is
// the link's once it is there.
func TestBatchWhoseDialHangs(t *testing.T) {
	t.Parallel()
	d, proxy := newPoolBehind(t, redistest.Start(t), withDatabase(1))
	warmPool(t, d, 1)
	dialled := make(chan struct{})
	proxy.On(faults.Command("SELECT"), 1, faults.DelayUntil(dialled))
	l := linkOf(t, d)
	limit := driver.BatchLimit{Own: testDialTimeout, Borrowed: testkit.Patience}
	start, watch := time.Now(), testkit.NewStopwatch(t)
	for range 2 {
		outcomes := l.Pipeline(limit, []driver.Request{echo("x"), echo("x")})
		requireAnswered(t, outcomes)
		require.GreaterOrEqual(t, outcomes[0].Sent.Sub(start), driver.MinConnect)
		watch.Within(driver.MinConnect + 500*time.Millisecond)
	}
	close(dialled)
	testkit.Eventually(t, testkit.Patience, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.conn != nil
	}, "connected")
	defer putConns(d, takeConns(t, d, 1))
	requireAnswered(t, l.Pipeline(limit, []driver.Request{echo("x")}))
}

// A link that is closed has its dial closed too, and needs no other connection.
func TestCloseOfALinkWhoseDialHangs(t *testing.T) {
	t.Parallel()
	d, proxy := newPoolBehind(t, redistest.Start(t), withDatabase(1))
	proxy.On(faults.Command("SELECT"), 1, faults.DropAnswer)
	l := linkOf(t, d)
	result := testkit.Async(t, func() error {
		return l.Pipeline(patient, []driver.Request{echo("x")})[0].Err
	})
	require.True(t, proxy.Await(faults.Command("SELECT"), 1, testkit.Patience))
	watch := testkit.NewStopwatch(t)
	l.Close()
	require.Error(t, testkit.ResultWithin(t, result, testkit.Patience))
	watch.Within(time.Second)
}

// Without an idle connection a batch goes over the shared one, unless it waits
// for replicas: WAIT would keep the calls of all others waiting.
func TestBatchOverTheSharedConnection(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	d := newTestPool(t, s)
	warmPool(t, d, 1)
	require.NoError(t, d.shared.call(t.Context(), driver.Limits{}, echo("x")).Err) // opens the shared connection
	defer putConns(d, takeConns(t, d, 1))
	full := redistest.FillUp(t, s)
	l := linkOf(t, d)
	requireAnswered(t, l.Pipeline(patient, []driver.Request{echo("x"), echo("x")}))
	granted := echo("x")
	granted.Granted = func(reply any) bool { return reply != nil }
	limit := driver.BatchLimit{Own: testkit.Patience, Borrowed: driver.MinLimit}
	for _, o := range driver.PipelineAcked(l, limit, []driver.Request{granted},
		&driver.Ack{Replicas: 1, Timeout: time.Second}) {
		require.Error(t, o.Err)
		require.False(t, o.Answered && !driver.IsRefusal(o.Err))
	}
	full.RequireSame(t)
}

// After READONLY no connection is used that is idle then: behind one address, a
// new one may lead to the new master.
func TestIdleConnectionsAreStaleAfterReadOnly(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := newTestPool(t, s)
	warmPool(t, d, 3)
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	require.True(t, driver.IsReadOnly(d.Call(t.Context(), driver.Limits{}, driver.SetNX("k", "v", time.Minute)).Err))
	s.Do(t, "REPLICAOF", "NO", "ONE")
	require.Equal(t, 2, d.Idle())
	require.NoError(t, d.Call(t.Context(), driver.Limits{}, driver.SetNX("k", "v", time.Minute)).Err)
	require.Equal(t, 1, d.Open())
}

// A worker that looks for an idle connection does not make the pool open one.
func TestDetourOpensNothing(t *testing.T) {
	t.Parallel()
	d := newTestPool(t, redistest.Start(t))
	require.Nil(t, d.borrow(t.Context(), testkit.Patience))
	require.Zero(t, d.Open())
	require.Zero(t, d.Connections())
	warmPool(t, d, 1)
	idle := d.borrow(t.Context(), testkit.Patience)
	require.NotNil(t, idle)
	require.Nil(t, d.borrow(t.Context(), testkit.Patience), "it is the only one")
	d.putBack(idle)
	require.Equal(t, 1, d.Idle())
}

// A borrowed connection that does not answer is kept for the batch's limit, and
// is then closed.
func TestBorrowedConnectionIsReturnedInTime(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	d, proxy := newPoolBehind(t, s, waitingForOne)
	warmPool(t, d, 1)
	redistest.FillUp(t, s)
	proxy.On(faults.Command("WAIT"), faults.Every, faults.DropAnswer)
	l := linkOf(t, d)
	watch := testkit.NewStopwatch(t)
	wait := driver.Request{Cmd: "WAIT", Args: []any{0, 0}, Waits: 3 * time.Second}
	for _, o := range l.Pipeline(driver.BatchLimit{Own: testkit.Patience, Borrowed: 200 * time.Millisecond},
		[]driver.Request{wait}) {
		require.ErrorIs(t, o.Err, os.ErrDeadlineExceeded)
		require.True(t, o.Unanswered())
	}
	watch.Within(time.Second)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(d.slots) == 0 && d.Connections() == 0 }, "returned")
}

// patientConn is a connection of the user's that ignores the limit of a read.
type patientConn struct{ redis.ConnWithTimeout }

func (c patientConn) ReceiveWithTimeout(time.Duration) (any, error) { return c.Receive() }

// A batch ends in time over a connection that ignores limits. The link closes
// it then: the answer is late, and the server has broken nothing.
func TestLateAnswerIsNoBreak(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	pool := &redis.Pool{Dial: DialWrapped(proxy.Network, proxy.Address, func(conn redis.ConnWithTimeout) redis.Conn {
		return patientConn{conn}
	})}
	d := FromPool(&driver.Config{DialTimeout: testDialTimeout, CommandTimeout: testCommandTimeout}, pool)
	defer func() { require.NoError(t, d.Close()) }()
	l := linkOf(t, d)
	limit := driver.BatchLimit{Own: time.Second, Borrowed: testkit.Patience}
	requireAnswered(t, l.Pipeline(limit, []driver.Request{echo("x")}))
	proxy.On(faults.Command("ECHO"), 1, faults.DropAnswer)
	late := l.Pipeline(limit, []driver.Request{echo("x")})[0]
	require.ErrorIs(t, late.Err, os.ErrDeadlineExceeded)
	require.True(t, late.Unanswered())
	require.False(t, late.Broke())
}

// forgivingConn is a connection of the user's whose second read fails without
// an effect on the connection.
type forgivingConn struct {
	redis.ConnWithTimeout
	reads *atomic.Int32
}

func (c forgivingConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	if c.reads.Add(1) == 2 {
		return nil, os.ErrDeadlineExceeded
	}
	return c.ConnWithTimeout.ReceiveWithTimeout(timeout)
}

// WAIT does not follow a batch of which an answer is missing: over such a
// connection that answer, once it comes, would be taken for that of WAIT.
func TestNoWaitBehindAMissingAnswer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	pool := &redis.Pool{Dial: DialWrapped(proxy.Network, proxy.Address, func(conn redis.ConnWithTimeout) redis.Conn {
		return forgivingConn{conn, new(atomic.Int32)}
	})}
	d := FromPool(&driver.Config{DialTimeout: testDialTimeout, CommandTimeout: testCommandTimeout}, pool)
	defer func() { require.NoError(t, d.Close()) }()
	granted := echo("x")
	granted.Granted = func(any) bool { return true }
	wait := driver.Request{Cmd: "WAIT", Args: []any{0, 0}, Waits: time.Second}
	limit := driver.BatchLimit{Own: testkit.Patience, Borrowed: testkit.Patience}
	all := linkOf(t, d).Pipeline(limit, []driver.Request{granted, echo("y"), wait})
	require.NoError(t, all[0].Err)
	require.True(t, all[1].IsMissing())
	require.True(t, all[2].IsMissing())
	require.Zero(t, proxy.Count(faults.Command("WAIT")))
}

// Whether an idle connection is older than a break is not asked of the wall
// clock, which may be set back.
func TestBreaksAreCountedByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	d := newPool(&driver.Config{})
	defer d.end()
	before := time.Now()
	o := d.result(nil, before, nil, io.EOF)
	require.True(t, o.Broke())
	require.True(t, d.isStale(before))
	require.False(t, d.isStale(time.Now()))
	require.Less(t, d.broken.Load(), int64(time.Hour), "counted from the start of the client")
}

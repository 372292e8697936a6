package driver

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

func openSharedOf(t testing.TB, d *Pool) {
	t.Helper()
	require.NoError(t, d.shared.call(t.Context(), Limits{}, echo("x")).Err)
}

func requireAnswered(t testing.TB, outcomes []Result) {
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
	proxy.On(faults.Command("SELECT"), 1, faults.Delay(MinConnect+time.Second))
	l := linkOf(t, d)
	limit := BatchLimit{Own: testDialTimeout, Borrowed: testkit.Patience}
	start := time.Now()
	for range 2 {
		outcomes := l.Pipeline(limit, []Request{echo("x"), echo("x")})
		requireAnswered(t, outcomes)
		require.GreaterOrEqual(t, outcomes[0].Sent.Sub(start), MinConnect)
		require.Less(t, time.Since(start), MinConnect+900*time.Millisecond)
	}
	testkit.Eventually(t, testkit.Patience, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.conn != nil
	}, "connected")
	defer putConns(d, takeConns(t, d, 1))
	requireAnswered(t, l.Pipeline(limit, []Request{echo("x")}))
}

// A link that is closed has its dial closed too, and needs no other connection.
func TestCloseOfALinkWhoseDialHangs(t *testing.T) {
	t.Parallel()
	d, proxy := newPoolBehind(t, redistest.Start(t), withDatabase(1))
	proxy.On(faults.Command("SELECT"), 1, faults.DropAnswer)
	l := linkOf(t, d)
	result := testkit.Async(t, func() error {
		return l.Pipeline(BatchLimit{Own: testkit.Patience, Borrowed: testkit.Patience}, []Request{echo("x")})[0].Err
	})
	require.True(t, proxy.Await(faults.Command("SELECT"), 1, testkit.Patience))
	l.Close()
	require.Error(t, testkit.ResultWithin(t, result, testDialTimeout/2))
}

// Without an idle connection a batch goes over the shared one, unless it waits
// for replicas: WAIT would keep the calls of all others waiting.
func TestBatchOverTheSharedConnection(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	d := newTestPool(t, s)
	warmPool(t, d, 1)
	openSharedOf(t, d)
	defer putConns(d, takeConns(t, d, 1))
	full := testkit.FillUp(t, s)
	l := linkOf(t, d)
	limit := BatchLimit{Own: testkit.Patience, Borrowed: testkit.Patience}
	requireAnswered(t, l.Pipeline(limit, []Request{echo("x"), echo("x")}))
	granted := echo("x")
	granted.Granted = func(reply any) bool { return reply != nil }
	for _, o := range PipelineAcked(l, limit, []Request{granted}, &Ack{Replicas: 1, Timeout: time.Second}) {
		require.Error(t, o.Err)
		require.False(t, o.Answered && !isRefusal(o.Err))
	}
	full.RequireSame(t)
}

// A borrowed connection that does not answer is kept for the batch's limit, and
// is then closed.
func TestBorrowedConnectionIsReturnedInTime(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	d, proxy := newPoolBehind(t, s, waitingForOne)
	warmPool(t, d, 1)
	testkit.FillUp(t, s)
	proxy.On(faults.Command("WAIT"), faults.Every, faults.DropAnswer)
	l := linkOf(t, d)
	start := time.Now()
	wait := Request{Cmd: "WAIT", Args: []any{0, 0}, waits: 3 * time.Second}
	for _, o := range l.Pipeline(BatchLimit{Own: testkit.Patience, Borrowed: 200 * time.Millisecond}, []Request{wait}) {
		require.ErrorIs(t, o.Err, os.ErrDeadlineExceeded)
		require.True(t, o.Unanswered())
	}
	require.Less(t, time.Since(start), 2*time.Second)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(d.slots) == 0 && d.Redis.ActiveCount() == 0 }, "returned")
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
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		conn, err := redis.Dial(proxy.Network, proxy.Address)
		if err != nil {
			return nil, err
		}
		return patientConn{conn.(redis.ConnWithTimeout)}, nil
	}}
	d := FromPool(&Config{DialTimeout: testDialTimeout, CommandTimeout: testCommandTimeout}, pool)
	defer func() { require.NoError(t, d.Close()) }()
	l := linkOf(t, d)
	limit := BatchLimit{Own: 200 * time.Millisecond, Borrowed: testkit.Patience}
	requireAnswered(t, l.Pipeline(limit, []Request{echo("x")}))
	proxy.On(faults.Command("ECHO"), 1, faults.DropAnswer)
	late := l.Pipeline(limit, []Request{echo("x")})[0]
	require.ErrorIs(t, late.Err, os.ErrDeadlineExceeded)
	require.True(t, late.Unanswered())
	require.False(t, late.Broke())
}

// Whether an idle connection is older than a break is not asked of the wall
// clock, which may be set back.
func TestBreaksAreCountedByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	d := newPool(&Config{})
	defer d.end()
	before := time.Now()
	o := d.result(before, nil, io.EOF)
	require.True(t, o.Broke())
	require.ErrorIs(t, d.check(nil, before), errStale)
	require.NoError(t, d.check(nil, time.Now()))
	require.Less(t, d.broken.Load(), int64(time.Hour), "counted from the start of the client")
}

package driver

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// openSharedOf opens the connection that calls share.
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
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	d := newTestPool(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, withDatabase(1))
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
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	d := newTestPool(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, withDatabase(1))
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
	proxy := faults.Start(t, s.Network, s.Address)
	d := newTestPool(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, waitingForOne)
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

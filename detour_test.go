package relock

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
func openSharedOf(t testing.TB, d *poolDriver) {
	t.Helper()
	require.NoError(t, d.shared.call(t.Context(), limits{}, echo("x")).err)
}

func requireAnswered(t testing.TB, outcomes []outcome) {
	t.Helper()
	for _, o := range outcomes {
		require.NoError(t, o.err)
		require.Equal(t, []byte("x"), o.reply)
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
	proxy.On(faults.Command("SELECT"), 1, faults.Delay(minConnect+time.Second))
	l := linkOf(t, d)
	limit := batchLimit{own: testDialTimeout, borrowed: testkit.Patience}
	start := time.Now()
	for range 2 {
		outcomes := l.pipeline(limit, []request{echo("x"), echo("x")})
		requireAnswered(t, outcomes)
		require.GreaterOrEqual(t, outcomes[0].sent.Sub(start), minConnect)
		require.Less(t, time.Since(start), minConnect+900*time.Millisecond)
	}
	testkit.Eventually(t, testkit.Patience, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.conn != nil
	}, "connected")
	defer putConns(d, takeConns(t, d, 1))
	requireAnswered(t, l.pipeline(limit, []request{echo("x")}))
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
		return l.pipeline(batchLimit{own: testkit.Patience, borrowed: testkit.Patience}, []request{echo("x")})[0].err
	})
	require.True(t, proxy.Await(faults.Command("SELECT"), 1, testkit.Patience))
	l.close()
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
	limit := batchLimit{own: testkit.Patience, borrowed: testkit.Patience}
	requireAnswered(t, l.pipeline(limit, []request{echo("x"), echo("x")}))
	for _, o := range pipelineConfirmed(l, limit, []request{echo("x")}, &confirmation{replicas: 1, timeout: time.Second}) {
		require.Error(t, o.err)
		require.False(t, o.answered && !isRefusal(o.err))
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
	wait := request{cmd: "WAIT", args: []any{0, 0}, waits: 3 * time.Second}
	for _, o := range l.pipeline(batchLimit{own: testkit.Patience, borrowed: 200 * time.Millisecond}, []request{wait}) {
		require.ErrorIs(t, o.err, os.ErrDeadlineExceeded)
		require.True(t, o.unanswered())
	}
	require.Less(t, time.Since(start), 2*time.Second)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(d.slots) == 0 && d.pool.ActiveCount() == 0 }, "returned")
}

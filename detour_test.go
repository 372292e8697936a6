package relock

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

// openShared opens the connection that calls share.
func openShared(t testing.TB, c *Client) {
	t.Helper()
	require.NoError(t, c.driver.(*poolDriver).shared.call(t.Context(), limits{}, echo("x")).err)
}

func linkOf(t testing.TB, c *Client) *poolLink {
	t.Helper()
	l := c.driver.link().(*poolLink)
	t.Cleanup(l.close)
	return l
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
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, WithDatabase(1))
	warm(t, c, 1)
	proxy.On(faults.Command("SELECT"), 1, faults.Delay(minConnect+time.Second))
	l := linkOf(t, c)
	limit := batchLimit{own: defaultDialTimeout, borrowed: queuePatience}
	start := time.Now()
	for range 2 {
		outcomes := l.pipeline(limit, []request{echo("x"), echo("x")})
		requireAnswered(t, outcomes)
		require.GreaterOrEqual(t, outcomes[0].sent.Sub(start), minConnect)
		require.Less(t, time.Since(start), minConnect+900*time.Millisecond)
	}
	eventually(t, queuePatience, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.conn != nil
	}, "connected")
	defer putBack(c, borrow(t, c, 1))
	requireAnswered(t, l.pipeline(limit, []request{echo("x")}))
}

// A link that is closed has its dial closed too, and needs no other connection.
func TestCloseOfALinkWhoseDialHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, WithDatabase(1))
	proxy.On(faults.Command("SELECT"), 1, faults.DropAnswer)
	l := linkOf(t, c)
	result := async(t, func() error {
		return l.pipeline(batchLimit{queuePatience, queuePatience}, []request{echo("x")})[0].err
	})
	require.True(t, proxy.Await(faults.Command("SELECT"), 1, queuePatience))
	l.close()
	require.Error(t, resultWithin(t, result, defaultDialTimeout/2))
}

// Without an idle connection a batch goes over the shared one, unless it waits
// for replicas: WAIT would keep the calls of all others waiting.
func TestBatchOverTheSharedConnection(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	c := newTestClient(t, s)
	warm(t, c, 1)
	openShared(t, c)
	defer putBack(c, borrow(t, c, 1))
	full := fillUp(t, s)
	l := linkOf(t, c)
	limit := batchLimit{queuePatience, queuePatience}
	requireAnswered(t, l.pipeline(limit, []request{echo("x"), echo("x")}))
	for _, o := range pipelineConfirmed(l, limit, []request{echo("x")}, &confirmation{1, time.Second}) {
		require.Error(t, o.err)
		require.False(t, o.answered && !isRefusal(o.err))
	}
	full.requireSame(t)
}

// A borrowed connection that does not answer is kept for the batch's limit, and
// is then closed.
func TestBorrowedConnectionIsReturnedInTime(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, WithMaxActive(1), WithWaitMode())
	warm(t, c, 1)
	fillUp(t, s)
	proxy.On(faults.Command("WAIT"), faults.Every, faults.DropAnswer)
	l := linkOf(t, c)
	start := time.Now()
	wait := request{cmd: "WAIT", args: []any{0, 0}, waits: 3 * time.Second}
	for _, o := range l.pipeline(batchLimit{queuePatience, 200 * time.Millisecond}, []request{wait}) {
		require.ErrorIs(t, o.err, os.ErrDeadlineExceeded)
		require.True(t, o.unanswered())
	}
	require.Less(t, time.Since(start), 2*time.Second)
	d := c.driver.(*poolDriver)
	eventually(t, queuePatience, func() bool { return len(d.slots) == 0 && d.pool.ActiveCount() == 0 }, "returned")
}

// A release that was executed on a connection that then broke, and sent again
// over another one, was no loss.
func TestReleaseThatWasSentTwice(t *testing.T) {
	t.Parallel()
	s := newFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, WithMaxActive(1))
	h, err := NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	openShared(t, c)
	defer putBack(c, borrow(t, c, 1)) // so that Unlock needs the cleaner
	cut := proxy.On(faults.Script(releaseScript.sha), 1, faults.CutAfter)
	require.NoError(t, h.Unlock(t.Context()))
	<-cut
	requireFree(t, s, c, "k")
}

// Renewals that wait for replicas go over an idle connection, WAIT behind them.
func TestReplicatedHoldAtTheLimit(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	r := newReplicated(t)
	c := newTestClient(t, r.master)
	warm(t, c, 1)
	full := fillUp(t, r.master)
	h, err := NewRedisLock("k", c, WithWatchdog(lease), WithReplicas(1, lease/4)).Acquire(t.Context())
	require.NoError(t, err)
	until, before := h.ValidUntil(), full.calls(t, "wait")
	eventually(t, lease, func() bool { return h.ValidUntil().After(until) }, "renewed")
	require.Greater(t, full.calls(t, "wait"), before)
	full.requireSame(t)
}

package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// openShared opens the connection that calls share.
func openShared(t testing.TB, c *Client) {
	t.Helper()
	d := c.engine.Driver.(*driver.Pool)
	before := d.Apart
	d.Apart = 0
	defer func() { d.Apart = before }()
	require.NoError(t, NewRedisLock("another", c).Do(t.Context(), nothing))
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
	defer putBack(c, borrow(t, c, 1)) // so that Unlock needs the retrier
	cut := proxy.On(faults.Script(script.Release.SHA), 1, faults.CutAfter)
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
	full := testkit.FillUp(t, r.master)
	h, err := NewRedisLock("k", c, WithWatchdog(lease), WithReplicas(1, lease/4)).Acquire(t.Context())
	require.NoError(t, err)
	until, before := h.ValidUntil(), full.Calls(t, "wait")
	testkit.Eventually(t, lease, func() bool { return h.ValidUntil().After(until) }, "renewed")
	require.Greater(t, full.Calls(t, "wait"), before)
	full.RequireSame(t)
}

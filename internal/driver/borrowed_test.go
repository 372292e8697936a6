package driver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// openShared opens the connection that calls share.
func openShared(t testing.TB, c *relock.Client) {
	t.Helper()
	d := locktest.Engine(c).Driver.(*driver.Pool)
	before := d.Apart
	d.Apart = 0
	defer func() { d.Apart = before }()
	require.NoError(t, relock.NewRedisLock("another", c).Do(t.Context(), locktest.Nothing))
}

// A release that was executed on a connection that then broke, and sent again
// over another one, was no loss.
func TestReleaseThatWasSentTwice(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, relock.WithMaxActive(1))
	h, err := relock.NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	openShared(t, c)
	defer locktest.PutBack(c, locktest.Borrow(t, c, 1)) // so that Unlock needs the retrier
	cut := proxy.On(faults.Script(script.Release.SHA), 1, faults.CutAfter)
	require.NoError(t, h.Unlock(t.Context()))
	<-cut
	locktest.RequireFree(t, s, c, "k")
}

// Renewals that wait for replicas go over an idle connection, WAIT behind them.
func TestReplicatedHoldAtTheLimit(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	r := locktest.NewReplicated(t)
	c := locktest.NewTestClient(t, r.Master)
	locktest.Warm(t, c, 1)
	full := testkit.FillUp(t, r.Master)
	h, err := relock.NewRedisLock("k", c, relock.WithWatchdog(lease), relock.WithReplicas(1, lease/4)).Acquire(t.Context())
	require.NoError(t, err)
	until, before := h.ValidUntil(), full.Calls(t, "wait")
	testkit.Eventually(t, lease, func() bool { return h.ValidUntil().After(until) }, "renewed")
	require.Greater(t, full.Calls(t, "wait"), before)
	full.RequireSame(t)
}

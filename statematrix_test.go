package relock

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// troubled is an operation whose server gets into trouble.
type troubled struct {
	testing.TB
	state  trouble
	op     stateOperation
	server *redistest.Server
	client *Client
	lock   anyLock
	holds  []Hold
	log    logBuffer
	until  time.Time // believed in trouble
}

// stateOperation is what is done in a state of the server and after it.
type stateOperation struct {
	name      string
	reentrant bool
	levels    int           // before
	lease     time.Duration // watched
	during    func(c *troubled)
	after     func(c *troubled)
}

const (
	// The short one ends while the server is in trouble. The long one does not, and is renewed when a test says so.
	shortTroubledLease = 1500 * time.Millisecond
	longTroubledLease  = time.Minute
	// recovery is for the background's next try, which comes within a second.
	recovery = 3 * cleanWithin / 2
)

var stateOperations = []stateOperation{
	{name: "plain acquire", during: duringAcquire, after: afterAcquire},
	{name: "plain renewal, short lease", levels: 1, lease: shortTroubledLease, during: duringShortLease, after: afterShortLease},
	{name: "plain renewal, long lease", levels: 1, during: duringLongLease, after: afterLongLease},
	{name: "plain extension", levels: 1, during: duringExtension, after: afterExtension},
	{name: "plain release", levels: 1, during: duringRelease, after: afterRelease},

	{name: "reentrant acquire", reentrant: true, during: duringAcquire, after: afterAcquire},
	{name: "re-entry at level 2", reentrant: true, levels: 1, during: duringAcquire, after: afterAcquire},
	{name: "re-entry at level 3", reentrant: true, levels: 2, during: duringAcquire, after: afterAcquire},
	{name: "renewal of level 1, short lease", reentrant: true, levels: 1, lease: shortTroubledLease, during: duringShortLease, after: afterShortLease},
	{name: "renewal of level 3, short lease", reentrant: true, levels: 3, lease: shortTroubledLease, during: duringShortLease, after: afterShortLease},
	{name: "renewal of level 3, long lease", reentrant: true, levels: 3, during: duringLongLease, after: afterLongLease},
	{name: "extension of level 2", reentrant: true, levels: 2, during: duringExtension, after: afterExtension},
	{name: "release of level 3", reentrant: true, levels: 3, during: duringRelease, after: afterRelease},
	{name: "release of level 2", reentrant: true, levels: 2, during: duringRelease, after: afterRelease},
	{name: "release of level 1", reentrant: true, levels: 1, during: duringRelease, after: afterRelease},
}

// In each state in which a server refuses commands, each operation says so and leaves nothing behind, holds live on until their belief
// ends, and what could not be given back is given back when the state is over.
func TestOperationsInEachStateOfTheServer(t *testing.T) {
	t.Parallel()
	var all []*troubled
	for _, state := range troubles(t) {
		s := redistest.Start(t, state.args...)
		for _, op := range stateOperations {
			all = append(all, newTroubled(t, state, s, op))
		}
	}
	eachServer(all, func(c *troubled) { c.state.start(t, c.server) })
	together(t, runs(all, "", func(c *troubled) { c.op.during(c) }))
	eachServer(all, func(c *troubled) { c.state.end(t, c.server) })
	together(t, runs(all, ", afterwards", func(c *troubled) { c.op.after(c) }))
}

// eachServer calls f once for each server.
func eachServer(all []*troubled, f func(*troubled)) {
	var last *redistest.Server
	for _, c := range all {
		if c.server != last {
			f(c)
		}
		last = c.server
	}
}

func runs(all []*troubled, suffix string, f func(*troubled)) []cellRun {
	cells := make([]cellRun, len(all))
	for i, c := range all {
		cells[i] = cellRun{c.state.code + "/" + c.op.name + suffix, func(t testing.TB) {
			c.TB = t
			f(c)
		}}
	}
	return cells
}

func newTroubled(t testing.TB, state trouble, s *redistest.Server, op stateOperation) *troubled {
	lease := op.lease
	switch {
	case lease == 0:
		lease = longTroubledLease
	case state.renews:
		lease *= 3 // it goes on, whatever else the machine does
	}
	c := &troubled{TB: t, state: state, op: op, server: s}
	c.client = newTestClient(t, s, WithCommandTimeout(4*answerLimit), WithWatchdog(lease), c.log.option())
	if c.lock = NewRedisLock(cellKey, c.client); op.reentrant {
		c.lock = owned("me", NewReentrantLock(cellKey, c.client)) // the phases have goroutines of their own
	}
	for range op.levels {
		h, err := c.lock.Acquire(t.Context())
		require.NoError(t, err)
		c.holds = append(c.holds, h)
	}
	return c
}

// requireRefused checks that an error names the state, and that it may pass.
func (c *troubled) requireRefused(err error) {
	c.Helper()
	require.ErrorContains(c, err, c.state.code)
	require.True(c, IsRetryableErr(err), err)
	for _, other := range []error{ErrLockAcquiredByOthers, ErrLockLost, ErrNotHeld, ErrDenied} {
		require.NotErrorIs(c, err, other)
	}
}

// requireLevels waits until the server has as many levels as the client was told.
func (c *troubled) requireLevels() {
	c.Helper()
	testkit.Eventually(c, recovery, func() bool {
		if len(c.holds) == 0 || !c.op.reentrant {
			return (pttl(c, c.server, c.client, cellKey) == scripttest.Absent) == (len(c.holds) == 0)
		}
		n, err := redis.Int(c.server.Do(c, "HGET", keyOf(c.client, cellKey), c.client.engine.Identity.Named("me")), nil)
		return err == nil && n == len(c.holds)
	}, "the count is right again")
}

func (c *troubled) unlock() error {
	newest := len(c.holds) - 1
	h := c.holds[newest]
	c.holds = c.holds[:newest]
	return h.Unlock(c.Context())
}

// requireGiveBack unlocks the levels that are left.
func (c *troubled) requireGiveBack() {
	c.Helper()
	c.requireLevels()
	for len(c.holds) > 0 {
		require.NoError(c, c.unlock())
		c.requireLevels()
	}
}

func duringAcquire(c *troubled) { c.requireRefused(c.lock.TryLock(c.Context())) }
func afterAcquire(c *troubled)  { c.requireGiveBack() }

func duringShortLease(c *troubled) {
	h := c.holds[0]
	until := h.ValidUntil()
	if c.state.renews {
		testkit.Eventually(c, cellPatience, func() bool { return h.ValidUntil().After(until) }, "it is renewed all the same")
		return
	}
	require.ErrorIs(c, testkit.EndedWithin(c, h.Context(), cellPatience), ErrLockLost)
	require.False(c, time.Now().Before(until), "lost before its belief ended")
	require.ErrorIs(c, h.Err(), ErrLockLost)
}

func afterShortLease(c *troubled) {
	if c.state.renews {
		c.requireGiveBack()
		return
	}
	for len(c.holds) > 0 {
		require.ErrorIs(c, c.unlock(), ErrLockLost)
	}
	c.requireLevels()
}

// duringLongLease has a hold renewed while the server refuses it, which does not matter while there is belief left.
func duringLongLease(c *troubled) {
	h := c.holds[0].(hold).level
	until := h.ValidUntil()
	h.Lease().RenewNow()
	if c.state.renews {
		testkit.Eventually(c, cellPatience, func() bool { return h.ValidUntil().After(until) }, "it is renewed all the same")
		return
	}
	testkit.Eventually(c, cellPatience, func() bool { return strings.Contains(c.log.String(), "renewal failed") }, "it is tried")
	require.Contains(c, c.log.String(), c.state.code)
	require.Equal(c, until, h.ValidUntil(), "a renewal that was refused is believed")
	c.until = until
}

func afterLongLease(c *troubled) {
	testkit.Eventually(c, recovery, func() bool { return c.holds[0].ValidUntil().After(c.until) }, "it is renewed again")
	c.requireGiveBack()
}

func duringExtension(c *troubled) {
	until := c.holds[0].ValidUntil()
	err := c.holds[0].Extend(c.Context(), 2*longTroubledLease)
	if c.state.renews {
		require.NoError(c, err)
		require.True(c, c.holds[0].ValidUntil().After(until))
		return
	}
	c.requireRefused(err)
	require.Equal(c, until, c.holds[0].ValidUntil(), "the belief is as it was")
}

func afterExtension(c *troubled) { c.requireGiveBack() }

func duringRelease(c *troubled) {
	err := c.unlock()
	if !c.state.unconfirmed {
		require.NoError(c, err)
		c.requireLevels()
		return
	}
	require.ErrorIs(c, err, ErrUnconfirmed)
	require.ErrorContains(c, err, c.state.code)
	require.NotErrorIs(c, err, ErrLockLost)
	require.False(c, IsRetryableErr(err))
}

func afterRelease(c *troubled) { c.requireGiveBack() }

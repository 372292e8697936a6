package relock

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// cellWithFault is a cell in which one operation meets one fault.
type cellWithFault struct {
	*cell
	op    variant
	fault fault
	lock  anyLock
	holds []Hold
	until time.Time // what is believed, when there is a hold
	keep  time.Time // until then the key is not free
}

func (c *cellWithFault) setUp() {
	var opts []LockOption
	if c.op.keeps {
		opts = append(opts, WithMinHold(c.op.minHold(c.fault)))
	}
	c.lock = c.op.lock(c.client, cellLease, opts...)
	for range c.op.levels {
		h, err := c.lock.Acquire(c.Context())
		require.NoError(c, err)
		c.holds = append(c.holds, h)
		c.until, c.keep = h.ValidUntil(), leaseOf(h).State().Keep
	}
}

// meetFault runs the operation, and sees that the server comes to the count that the client was told.
func (c *cellWithFault) meetFault() {
	c.op.loseSET(c.cell)
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	match := c.op.match
	if c.fault.leaves {
		match = func(args []string) bool {
			matches := c.op.match(args)
			if matches {
				cancel()
			}
			return matches
		}
	}
	done := c.proxy.On(match, 1, c.action())
	c.op.run(ctx, c)
	c.await(done, "the fault did not happen")
	if c.fault.early {
		require.Len(c, c.proxy.Release(), 1)
	}
	c.requireLevels(len(c.holds))
	c.requireSameBelief()
	c.look(c.bench.Conn)
}

// action is the fault's.
func (c *cellWithFault) action() faults.Action {
	if c.fault.late == nil {
		return c.fault.action
	}
	late := 3 * c.op.patience(c.fault) / 2
	if c.op.releases {
		late /= 2
	}
	return c.fault.late(late)
}

// requireOutcome checks the error of a call that may fail, and says whether it was granted.
func (c *cellWithFault) requireOutcome(ctx context.Context, err error) bool {
	c.Helper()
	if c.fault.granted {
		require.NoError(c, err)
		return true
	}
	require.Error(c, err)
	for _, other := range []error{ErrLockAcquiredByOthers, ErrLockLost, ErrNotHeld} {
		require.NotErrorIs(c, err, other)
	}
	if ctx.Err() != nil {
		require.ErrorIs(c, err, ctx.Err())
	}
	return false
}

// requireBelief checks that what was granted is believed from a sending between start and now.
func (c *cellWithFault) requireBelief(start time.Time, length time.Duration) {
	c.Helper()
	length -= lease.Drift(length)
	until := c.holds[0].ValidUntil()
	require.False(c, until.Before(start.Add(length)), "believed for less than was granted")
	if c.op.lease == "fixed" { // else it may have been renewed
		require.False(c, until.After(time.Now().Add(length)), "believed for longer than was granted")
	}
	c.until = until
}

// requireSameBelief checks that neither the fault nor what came after it has changed the belief.
func (c *cellWithFault) requireSameBelief() {
	c.Helper()
	switch {
	case len(c.holds) == 0:
		require.Empty(c, believed(c.client))
	case c.op.lease == "fixed":
		require.Equal(c, c.until, c.holds[0].ValidUntil())
	default:
		require.False(c, c.holds[0].ValidUntil().Before(c.until), "the belief was shortened")
	}
}

// unlock leaves the newest level.
func (c *cellWithFault) unlock(ctx context.Context) {
	c.Helper()
	newest := len(c.holds) - 1
	h := c.holds[newest]
	c.holds = c.holds[:newest]
	require.NoError(c, h.Unlock(ctx))
	require.ErrorIs(c, h.Err(), ErrNotHeld)
}

// giveBack unlocks the levels that are left, one by one.
func (c *cellWithFault) giveBack() {
	for len(c.holds) > 0 {
		require.Equal(c, len(c.holds), c.levels())
		c.unlock(c.Context())
		require.Equal(c, len(c.holds), c.levels())
		c.requireSameBelief()
		c.look(c.bench.Conn)
	}
}

// requireGone sees that the key is free now, or else that it is kept until its minimum hold is over, and no longer.
func (c *cellWithFault) requireGone() {
	c.requireKept()
	c.requireRefused()
	if c.fault.released {
		before := c.read()
		require.Len(c, c.proxy.Release(), 1)
		if after := c.read(); time.Now().Before(c.keep) {
			c.requireUntouched(before, after)
		}
	}
	limit := testkit.Later(c.keep, time.Now()).Add(cleanWithin)
	for c.requireKept() {
		require.True(c, time.Now().Before(limit), "the key is still there")
		time.Sleep(max(time.Until(c.keep), 3*time.Millisecond)) // it is there until then, or was asked to go
	}
}

// requireKept says whether there is a key, and sees that it does not go before its minimum hold is over.
func (c *cellWithFault) requireKept() bool {
	c.Helper()
	now := c.read()
	if time.Now().Before(c.keep) {
		require.False(c, now.latest.Before(c.keep), "the key goes before its minimum hold is over")
	}
	return now.TTL != scripttest.Absent
}

// requireRefused sees that nobody gets the lock before its minimum hold is over.
func (c *cellWithFault) requireRefused() {
	c.Helper()
	if time.Until(c.keep) <= 0 {
		return
	}
	lock := c.op.lock(c.other, cellLease)
	if err := lock.TryLock(c.Context()); time.Now().Before(c.keep) {
		require.ErrorIs(c, err, ErrLockAcquiredByOthers)
	} else if err == nil {
		require.NoError(c, lock.Unlock(c.Context()))
	}
}

// next takes the lock again, and sees that nothing of the hold before touches it.
func (c *cellWithFault) next() {
	client := c.other
	if c.fault.same {
		client = c.client
	}
	op := c.op
	op.lease = "fixed" // nobody renews it
	if op.rw != "" {
		op.rw = "w" // beside one who reads a late copy may read, for a moment
	}
	lock := op.lock(client, cellLease)
	require.NoError(c, lock.Lock(c.Context()))
	before := c.read()
	answers := c.proxy.Release()
	require.Equal(c, c.fault.next, len(answers) == 1, answers)
	for _, answer := range answers {
		if op.rw == "" || answer != "*1" { // of an acquire, see what it has touched
			require.Contains(c, []string{":0", "$-1"}, answer, "the late copy found something of its own")
		}
	}
	c.requireUntouched(before, c.read())
	if op.first {
		// The cleaner may be at work still: a release of its own more does not matter either.
		c.proxy.Await(op.giveBack(), c.proxy.Count(op.giveBack())+1, answerLimit)
		c.requireUntouched(before, c.read())
	}
	require.NoError(c, lock.Unlock(c.Context()))
	requireFree(c, c.server, c.client, cellKey)
	c.requireForgotten()
}

// requireForgotten sees that the client has nothing of the lock in its books.
func (c *cellWithFault) requireForgotten() {
	require.Zero(c, c.client.engine.State().Leases)
	require.Zero(c, c.client.engine.State().Owners)
}

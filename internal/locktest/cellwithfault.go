package locktest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// CellWithFault is a cell in which one operation meets one fault.
type CellWithFault struct {
	*Cell
	Op    Variant
	Fault Fault
	lock  AnyLock
	holds []relock.Hold
	until time.Time // what is believed, when there is a hold
	keep  time.Time // until then the key is not free
}

func (c *CellWithFault) SetUp() {
	var opts []relock.LockOption
	if c.Op.keeps {
		opts = append(opts, relock.WithMinHold(c.Op.minHold(c.Fault)))
	}
	c.lock = c.Op.Lock(c.Client, CellLease, opts...)
	for range c.Op.Levels {
		h, err := c.lock.Acquire(c.Context())
		require.NoError(c, err)
		c.holds = append(c.holds, h)
		c.until, c.keep = h.ValidUntil(), LeaseOf(h).State().Keep
	}
}

// MeetFault runs the operation, and sees that the server comes to the count that the client was told.
func (c *CellWithFault) MeetFault() {
	c.Op.LoseSET(c.Cell)
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	match := c.Op.Match
	if c.Fault.Leaves {
		match = func(args []string) bool {
			matches := c.Op.Match(args)
			if matches {
				cancel()
			}
			return matches
		}
	}
	done := c.Proxy.On(match, 1, c.action())
	c.Op.Run(ctx, c)
	c.Await(done, "the fault did not happen")
	if c.Fault.Early {
		require.Len(c, c.Proxy.Release(), 1)
	}
	c.RequireLevels(len(c.holds))
	c.requireSameBelief()
	c.look(c.Bench.Conn)
}

// action is the fault's.
func (c *CellWithFault) action() faults.Action {
	if c.Fault.Late == nil {
		return c.Fault.Action
	}
	late := 3 * c.Op.Patience(c.Fault) / 2
	if c.Op.Releases {
		late /= 2
	}
	return c.Fault.Late(late)
}

// requireOutcome checks the error of a call that may fail, and says whether it was granted.
func (c *CellWithFault) requireOutcome(ctx context.Context, err error) bool {
	c.Helper()
	if c.Fault.Granted {
		require.NoError(c, err)
		return true
	}
	require.Error(c, err)
	for _, other := range []error{relock.ErrLockAcquiredByOthers, relock.ErrLockLost, relock.ErrNotHeld} {
		require.NotErrorIs(c, err, other)
	}
	if ctx.Err() != nil {
		require.ErrorIs(c, err, ctx.Err())
	}
	return false
}

// RequireBelief checks that what was granted is believed from a sending between start and now.
func (c *CellWithFault) RequireBelief(start time.Time, length time.Duration) {
	c.Helper()
	length -= lease.Drift(length)
	until := c.holds[0].ValidUntil()
	require.False(c, until.Before(start.Add(length)), "believed for less than was granted")
	if c.Op.Lease == "fixed" { // else it may have been renewed
		require.False(c, until.After(time.Now().Add(length)), "believed for longer than was granted")
	}
	c.until = until
}

// requireSameBelief checks that neither the fault nor what came after it has changed the belief.
func (c *CellWithFault) requireSameBelief() {
	c.Helper()
	switch {
	case len(c.holds) == 0:
		require.Empty(c, Believed(c.Client))
	case c.Op.Lease == "fixed":
		require.Equal(c, c.until, c.holds[0].ValidUntil())
	default:
		require.False(c, c.holds[0].ValidUntil().Before(c.until), "the belief was shortened")
	}
}

// Unlock leaves the newest level.
func (c *CellWithFault) Unlock(ctx context.Context) {
	c.Helper()
	newest := len(c.holds) - 1
	h := c.holds[newest]
	c.holds = c.holds[:newest]
	require.NoError(c, h.Unlock(ctx))
	require.ErrorIs(c, h.Err(), relock.ErrNotHeld)
}

// GiveBack unlocks the levels that are left, one by one.
func (c *CellWithFault) GiveBack() {
	for len(c.holds) > 0 {
		require.Equal(c, len(c.holds), c.Levels())
		c.Unlock(c.Context())
		require.Equal(c, len(c.holds), c.Levels())
		c.requireSameBelief()
		c.look(c.Bench.Conn)
	}
}

// RequireGone sees that the key is free now, or else that it is kept until its minimum hold is over, and no longer.
func (c *CellWithFault) RequireGone() {
	c.requireKept()
	c.requireRefused()
	if c.Fault.Released {
		before := c.Read()
		require.Len(c, c.Proxy.Release(), 1)
		if after := c.Read(); time.Now().Before(c.keep) {
			c.RequireUntouched(before, after)
		}
	}
	limit := testkit.Later(c.keep, time.Now()).Add(CleanWithin)
	for c.requireKept() {
		require.True(c, time.Now().Before(limit), "the key is still there")
		time.Sleep(max(time.Until(c.keep), 3*time.Millisecond)) // it is there until then, or was asked to go
	}
}

// requireKept says whether there is a key, and sees that it does not go before its minimum hold is over.
func (c *CellWithFault) requireKept() bool {
	c.Helper()
	now := c.Read()
	if time.Now().Before(c.keep) {
		require.False(c, now.Latest.Before(c.keep), "the key goes before its minimum hold is over")
	}
	return now.TTL != scripttest.Absent
}

// requireRefused sees that nobody gets the lock before its minimum hold is over.
func (c *CellWithFault) requireRefused() {
	c.Helper()
	if time.Until(c.keep) <= 0 {
		return
	}
	lock := c.Op.Lock(c.Other, CellLease)
	if err := lock.TryLock(c.Context()); time.Now().Before(c.keep) {
		require.ErrorIs(c, err, relock.ErrLockAcquiredByOthers)
	} else if err == nil {
		require.NoError(c, lock.Unlock(c.Context()))
	}
}

// Next takes the lock again, and sees that nothing of the hold before touches it.
func (c *CellWithFault) Next() {
	client := c.Other
	if c.Fault.Same {
		client = c.Client
	}
	op := c.Op
	op.Lease = "fixed" // nobody renews it
	if op.Rw != "" {
		op.Rw = "w" // beside one who reads a late copy may read, for a moment
	}
	lock := op.Lock(client, CellLease)
	require.NoError(c, lock.Lock(c.Context()))
	before := c.Read()
	answers := c.Proxy.Release()
	require.Equal(c, c.Fault.Next, len(answers) == 1, answers)
	for _, answer := range answers {
		if op.Rw == "" || answer != "*1" { // of an acquire, see what it has touched
			require.Contains(c, []string{":0", "$-1"}, answer, "the late copy found something of its own")
		}
	}
	c.RequireUntouched(before, c.Read())
	if op.First {
		// The cleaner may be at work still: a release of its own more does not matter either.
		c.Proxy.Await(op.GiveBack(), c.Proxy.Count(op.GiveBack())+1, AnswerLimit)
		c.RequireUntouched(before, c.Read())
	}
	require.NoError(c, lock.Unlock(c.Context()))
	RequireFree(c, c.Server, c.Client, CellKey)
	c.RequireForgotten()
}

// RequireForgotten sees that the client has nothing of the lock in its books.
func (c *CellWithFault) RequireForgotten() {
	require.Zero(c, Engine(c.Client).State().Leases)
	require.Zero(c, Engine(c.Client).State().Owners)
}

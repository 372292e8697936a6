package matrix_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// cell is one operation that meets one fault.
type cell struct {
	*locktest.FaultBench
	operation
	fault   fault
	servers []*redistest.Server // of a RedLock, that of the cell first
	peers   []*relock.Client    // of the other servers
	lock    locktest.AnyLock
	holds   []relock.Hold
	until   time.Time // the hold is valid until then
	keep    time.Time // until then the key is not free
}

// setUp takes the lock as many times as the operation needs it.
func (c *cell) setUp(nodes []*redistest.Server) {
	if c.nodes {
		c.servers = append([]*redistest.Server{c.Server}, nodes[1:]...)
		for _, s := range nodes[1:] {
			c.peers = append(c.peers, locktest.Sibling(c, s, c.Client))
		}
	}
	opts := c.options()
	if c.keeps {
		opts = append(opts, relock.WithMinHold(c.minHold(c.fault)))
	}
	c.lock = c.kind.lock(c, c.Client, opts...)
	for range c.levels {
		began := time.Now()
		h, err := c.take(c.Context(), c.lock)
		require.NoError(c, err)
		c.holds = append(c.holds, h)
		c.until = h.ValidUntil()
		if c.keeps {
			c.keep = began.Add(c.minHold(c.fault))
		}
	}
}

// take acquires one level more.
func (c *cell) take(ctx context.Context, lock locktest.AnyLock) (relock.Hold, error) {
	if rw, ok := lock.(*relock.RWLock); ok && c.order[len(c.holds)%len(c.order)] == 'r' {
		return rw.TryRAcquire(ctx)
	}
	return lock.TryAcquire(ctx)
}

// meetFault runs the operation, and checks that the server comes to the levels
// that the client knows.
func (c *cell) meetFault() {
	if c.cut {
		c.Proxy.On(faults.Command("SET"), 1, faults.CutBefore) // the script is the first request that comes to the server
	}
	late := 3 * c.patience(c.fault) / 2
	if c.releases() {
		late /= 2
	}
	c.fault.meet(c.FaultBench, c.match, late, func(ctx context.Context) { c.run(c, ctx) })
	c.requireLevels(c.cleanWithin())
	c.requireSameValidity()
	c.Look()
}

// cleanWithin is how long a message that is lost or late leaves something
// behind. A RedLock's call does not wait for the node with the fault.
func (c *cell) cleanWithin() time.Duration {
	if c.nodes {
		return locktest.CleanWithin + c.patience(c.fault)
	}
	return locktest.CleanWithin
}

// held returns how many levels there are. It returns -1 if only a part of the
// keys, or of a majority of the nodes, is held.
func (c *cell) held() int {
	n, whole := 0, 0
	switch {
	case c.nodes:
		for _, s := range c.servers {
			n += int(s.Do(c, "EXISTS", c.Key).(int64))
		}
		whole = len(c.servers)/2 + 1
	case c.group:
		for _, key := range multiKeys {
			n += int(c.Server.Do(c, "EXISTS", locktest.KeyOf(c.Client, key)).(int64))
		}
		whole = len(multiKeys)
	default:
		return c.Levels()
	}
	switch {
	case n == 0:
		return 0
	case n >= whole:
		return 1
	}
	return -1
}

// requireLevels waits until the server has the levels that the client knows.
func (c *cell) requireLevels(limit time.Duration) {
	c.Helper()
	c.WaitFor(limit, func() bool { return c.held() == len(c.holds) }, "the server does not come to what the client knows")
}

// requireSameValidity checks that neither the fault nor what came after it has
// changed how long the hold is valid.
func (c *cell) requireSameValidity() {
	c.Helper()
	switch {
	case len(c.holds) == 0:
		require.Empty(c, locktest.ValidLeases(c.Client))
	case !c.watched && !c.nodes:
		require.Equal(c, c.until, c.holds[0].ValidUntil())
	default:
		require.False(c, c.holds[0].ValidUntil().Before(c.until), "shortened")
	}
}

// slack is how long an Unlock may take to reach the server: a RedLock does not
// wait for all nodes.
func (c *cell) slack() time.Duration {
	if c.nodes {
		return c.cleanWithin()
	}
	return 0
}

// releaseAll unlocks the levels that are left, one by one.
func (c *cell) releaseAll() {
	for len(c.holds) > 0 {
		c.requireLevels(c.slack())
		c.unlock(c.Context())
		c.requireLevels(c.slack())
		c.requireSameValidity()
		c.Look()
	}
}

// requireGone checks that the key is free now, or else that it is kept until
// its minimum hold is over, and no longer.
func (c *cell) requireGone() {
	c.requireKept()
	c.requireRefused()
	if c.fault.released {
		before := c.Read()
		require.Len(c, c.Proxy.Release(), 1)
		if after := c.Read(); time.Now().Before(c.keep) {
			c.RequireUntouched(before, after)
		}
	}
	free, watch := testkit.Later(c.keep, time.Now()), testkit.NewStopwatch(c)
	for c.requireKept() || c.held() != 0 {
		require.Less(c, time.Since(free), testkit.Patience, "the key is still there")
		time.Sleep(max(time.Until(c.keep), 3*time.Millisecond)) // it is there until then, or was asked to go
	}
	watch.Check(time.Since(free), c.cleanWithin(), "the key was still there")
	watch.Net() // stops it
}

// requireKept reports whether there is a key, and checks that it does not go
// before its minimum hold is over.
func (c *cell) requireKept() bool {
	c.Helper()
	now := c.Read()
	if time.Now().Before(c.keep) {
		require.False(c, now.Latest.Before(c.keep), "the key goes before its minimum hold is over")
	}
	return now.TTL != locktest.Absent
}

// requireRefused checks that nobody gets the lock before its minimum hold is
// over.
func (c *cell) requireRefused() {
	c.Helper()
	if time.Until(c.keep) <= 0 {
		return
	}
	h, err := c.take(c.Context(), c.kind.lock(c, c.Other, c.options()...))
	if time.Now().Before(c.keep) {
		require.ErrorIs(c, err, relock.ErrLockAcquiredByOthers)
	} else if err == nil {
		require.NoError(c, h.Unlock(c.Context()))
	}
}

// takeAgain takes the lock again, and checks that nothing of the hold before
// touches it.
func (c *cell) takeAgain() {
	client := c.Other
	if c.fault.same {
		client = c.Client
	}
	h := c.takeWhole(client)
	before := c.Read()
	answers := c.Proxy.Release()
	require.Equal(c, c.fault.next, len(answers) == 1, answers)
	for _, answer := range answers {
		if !c.group && (c.order == "" || answer != "*1") { // of an acquire, see what it has touched
			require.Contains(c, []string{":0", "$-1"}, answer, "the late copy found what it had stored")
		}
	}
	c.RequireUntouched(before, c.Read())
	if c.levels == 0 || c.group {
		// The retrier may be at work still: one more release does not matter
		// either.
		c.Proxy.Await(c.release, c.Proxy.Count(c.release)+1, locktest.AnswerLimit)
		c.RequireUntouched(before, c.Read())
	}
	c.holds = []relock.Hold{h}
	require.Equal(c, 1, c.held())
	c.unlock(c.Context())
	c.requireLevels(c.slack())
	if c.order != "" {
		locktest.RequireRWGone(c, c.Server, c.Client, locktest.FaultKey)
	}
	if !c.nodes {
		locktest.RequireNoQueues(c, c.Server, c.Client, multiKeys...)
	}
}

// takeWhole acquires the lock with a fixed lease, to write: beside a reader, a
// late copy may read for a moment. It takes all nodes of a RedLock. The one
// with the fault may have granted the hold before a moment late.
func (c *cell) takeWhole(client *relock.Client) relock.Hold {
	lock := c.kind.lock(c, client, relock.WithExpiry(locktest.FaultLease))
	for deadline := time.Now().Add(testkit.Patience); ; {
		h, err := lock.TryAcquire(c.Context())
		require.NoError(c, err)
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if !c.nodes || locktest.NodesOf(h) == len(c.servers) {
				return h
			}
		}
		require.NoError(c, h.Unlock(c.Context()))
		require.True(c, time.Now().Before(deadline), "not all nodes have granted it")
	}
}

package matrix_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// stateCell is an operation whose server gets into trouble.
type stateCell struct {
	testing.TB
	test   testing.TB // that of all phases
	state  trouble
	op     stateOperation
	server *redistest.Server
	client *relock.Client
	lock   locktest.AnyLock
	holds  []relock.Hold
	log    locktest.LogBuffer
	until  time.Time // the hold is valid until then, in trouble
	waits  <-chan error
}

// stateOperation is what is done in a state of the server and after it.
type stateOperation struct {
	name      string
	reentrant bool
	levels    int           // before
	lease     time.Duration // watched
	keeps     bool          // with a minimum hold
	during    func(c *stateCell)
	after     func(c *stateCell)
}

const (
	// The short one ends while the server is in trouble. The long one does not,
	// and is renewed when a test asks for it.
	shortLease  = 1500 * time.Millisecond
	longLease   = 2 * time.Minute
	minimumHold = longLease / 2
	// recovery is for the background's next try, which comes within a second.
	recovery = 3 * locktest.CleanWithin / 2
)

var stateOperations = []stateOperation{
	{name: "plain acquire", during: duringAcquire, after: (*stateCell).releaseAll},
	{name: "plain wait", during: duringWait, after: afterWait},
	{name: "plain renewal, short lease", levels: 1, lease: shortLease, during: duringShortLease, after: afterShortLease},
	{name: "plain renewal, long lease", levels: 1, during: duringLongLease, after: afterLongLease},
	{name: "plain extension", levels: 1, during: duringExtension, after: (*stateCell).releaseAll},
	{name: "plain release", levels: 1, during: duringRelease, after: (*stateCell).releaseAll},
	{name: "plain release, minimum hold", levels: 1, keeps: true, during: duringRelease, after: afterKeptRelease},

	{name: "reentrant acquire", reentrant: true, during: duringAcquire, after: (*stateCell).releaseAll},
	{name: "reentrant wait", reentrant: true, during: duringWait, after: afterWait},
	{name: "re-entry at level 2", reentrant: true, levels: 1, during: duringAcquire, after: (*stateCell).releaseAll},
	{name: "re-entry at level 3", reentrant: true, levels: 2, during: duringAcquire, after: (*stateCell).releaseAll},
	{
		name: "renewal of level 1, short lease", reentrant: true, levels: 1,
		lease: shortLease, during: duringShortLease, after: afterShortLease,
	},
	{
		name: "renewal of level 3, short lease", reentrant: true, levels: 3,
		lease: shortLease, during: duringShortLease, after: afterShortLease,
	},
	{name: "renewal of level 3, long lease", reentrant: true, levels: 3, during: duringLongLease, after: afterLongLease},
	{name: "extension of level 2", reentrant: true, levels: 2, during: duringExtension, after: (*stateCell).releaseAll},
	{name: "release of level 3", reentrant: true, levels: 3, during: duringRelease, after: (*stateCell).releaseAll},
	{name: "release of level 2", reentrant: true, levels: 2, during: duringRelease, after: (*stateCell).releaseAll},
	{name: "release of level 1", reentrant: true, levels: 1, during: duringRelease, after: (*stateCell).releaseAll},
	{
		name: "release of level 1, minimum hold", reentrant: true, levels: 1,
		keeps: true, during: duringRelease, after: afterKeptRelease,
	},
}

// In each state in which a server refuses commands, each operation reports it
// and leaves nothing behind. Holds live on until they are no longer valid. What
// could not be released is released when the state is over, and blocking calls
// ride it out.
func TestOperationsInEachStateOfTheServer(t *testing.T) {
	t.Parallel()
	for _, state := range troubles(t) {
		t.Run(state.code, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, state.args...)
			var during, after []locktest.Subtest
			for _, op := range stateOperations {
				c := newStateCell(t, state, s, op)
				during = append(during, locktest.Subtest{Name: op.name, Run: func(t testing.TB) { c.TB = t; op.during(c) }})
				after = append(after,
					locktest.Subtest{Name: op.name + ", afterwards", Run: func(t testing.TB) { c.TB = t; op.after(c) }})
			}
			state.start(t, s)
			locktest.RunTogether(t, during)
			state.end(t, s)
			locktest.RunTogether(t, after)
		})
	}
}

func newStateCell(t testing.TB, state trouble, s *redistest.Server, op stateOperation) *stateCell {
	lease := op.lease
	switch {
	case lease == 0:
		lease = longLease
	case state.renews:
		lease = longLease // it goes on, whatever else the machine does
	}
	c := &stateCell{TB: t, test: t, state: state, op: op, server: s}
	c.client = locktest.NewTestClient(t, s,
		relock.WithCommandTimeout(4*locktest.AnswerLimit), relock.WithWatchdog(lease), c.log.Option())
	c.lock = c.newLock()
	for range op.levels {
		c.holds = append(c.holds, locktest.Take(t, c.lock.Acquire))
	}
	return c
}

func (c *stateCell) newLock(opts ...relock.LockOption) locktest.AnyLock {
	if c.op.keeps {
		opts = append(opts, relock.WithMinHold(minimumHold))
	}
	if c.op.reentrant {
		// each phase has its own goroutines
		return locktest.Owned("me", relock.NewReentrantLock(locktest.FaultKey, c.client, opts...))
	}
	return relock.NewRedisLock(locktest.FaultKey, c.client, opts...)
}

// requireRefused checks that an error names the state, and that it may pass.
func (c *stateCell) requireRefused(err error) {
	c.Helper()
	require.ErrorContains(c, err, c.state.code)
	require.True(c, relock.IsRetryableErr(err), err)
	for _, other := range []error{
		relock.ErrLockAcquiredByOthers, relock.ErrLockLost, relock.ErrNotHeld, relock.ErrDenied,
	} {
		require.NotErrorIs(c, err, other)
	}
}

// requireLevels waits until the server has as many levels as the client was
// told.
func (c *stateCell) requireLevels() {
	c.Helper()
	locktest.EventuallyWithin(c, recovery, func() bool {
		if len(c.holds) == 0 || !c.op.reentrant {
			return (locktest.PTTL(c, c.server, c.client, locktest.FaultKey) == locktest.Absent) == (len(c.holds) == 0)
		}
		n, err := redis.Int(c.server.Do(c, "HGET", locktest.KeyOf(c.client, locktest.FaultKey),
			locktest.Engine(c.client).Identity.Named("me")), nil)
		return err == nil && n == len(c.holds)
	}, "the levels are right again")
}

func (c *stateCell) unlock() error {
	newest := len(c.holds) - 1
	h := c.holds[newest]
	c.holds = c.holds[:newest]
	return h.Unlock(c.Context())
}

// releaseAll unlocks the levels that are left.
func (c *stateCell) releaseAll() {
	c.Helper()
	c.requireLevels()
	for len(c.holds) > 0 {
		require.NoError(c, c.unlock())
		c.requireLevels()
	}
}

func duringAcquire(c *stateCell) { c.requireRefused(c.lock.TryLock(c.Context())) }

func duringWait(c *stateCell) {
	done, err := c.client.SetNEX(c.Context(), "raw", "v", time.Minute)
	c.requireRefused(err)
	require.False(c, done, "an error is no success")
	require.ErrorContains(c, c.newLock(relock.WithBlockTimeout(2*time.Second)).Lock(c.Context()), c.state.code,
		"the last reason")
	c.lock = c.newLock(relock.WithBlock())
	c.waits = testkit.Async(c.test, func() error { return c.lock.Lock(c.test.Context()) })
	time.Sleep(30 * time.Millisecond)
	require.Empty(c, c.waits, "did not wait")
}

func afterWait(c *stateCell) {
	require.NoError(c, testkit.ResultWithin(c, c.waits, testkit.Patience))
	require.NoError(c, c.lock.Unlock(c.Context()))
	c.requireLevels()
}

func duringShortLease(c *stateCell) {
	h := c.holds[0]
	until := h.ValidUntil()
	if c.state.renews {
		locktest.Renew(c, h, testkit.Patience)
		return
	}
	require.ErrorIs(c, testkit.EndedWithin(c, h.Context(), testkit.Patience), relock.ErrLockLost)
	require.False(c, time.Now().Before(until), "lost while it was valid")
	require.ErrorIs(c, h.Err(), relock.ErrLockLost)
}

func afterShortLease(c *stateCell) {
	if c.state.renews {
		c.releaseAll()
		return
	}
	for len(c.holds) > 0 {
		require.ErrorIs(c, c.unlock(), relock.ErrLockLost)
	}
	c.requireLevels()
}

// duringLongLease has a hold renewed while the server refuses it, which does
// not matter while the hold is valid.
func duringLongLease(c *stateCell) {
	h := c.holds[0]
	c.until = h.ValidUntil()
	locktest.RenewNow(h)
	if c.state.renews {
		testkit.Eventually(c, testkit.Patience, func() bool { return h.ValidUntil().After(c.until) },
			"it is renewed all the same")
		c.until = time.Time{}
		return
	}
	testkit.Eventually(c, testkit.Patience,
		func() bool { return strings.Contains(c.log.String(), "renewal failed") }, "it is tried")
	require.Contains(c, c.log.String(), c.state.code)
	require.Equal(c, c.until, h.ValidUntil(), "a renewal that was refused counts")
}

func afterLongLease(c *stateCell) {
	locktest.EventuallyWithin(c, recovery, func() bool { return c.holds[0].ValidUntil().After(c.until) },
		"it is renewed again")
	c.releaseAll()
}

func duringExtension(c *stateCell) {
	until := c.holds[0].ValidUntil()
	err := c.holds[0].Extend(c.Context(), 2*longLease)
	if c.state.renews {
		require.NoError(c, err)
		require.True(c, c.holds[0].ValidUntil().After(until))
		return
	}
	c.requireRefused(err)
	require.Equal(c, until, c.holds[0].ValidUntil())
}

func duringRelease(c *stateCell) {
	err := c.unlock()
	if !c.state.unconfirmed {
		require.NoError(c, err)
		if !c.op.keeps {
			c.requireLevels()
		}
		return
	}
	require.ErrorIs(c, err, relock.ErrUnconfirmed)
	require.ErrorContains(c, err, c.state.code)
	require.NotErrorIs(c, err, relock.ErrLockLost)
	require.False(c, relock.IsRetryableErr(err))
}

// afterKeptRelease checks that a key is kept for its minimum hold, and no
// longer.
func afterKeptRelease(c *stateCell) {
	locktest.EventuallyWithin(c, recovery,
		func() bool { return locktest.PTTL(c, c.server, c.client, locktest.FaultKey) <= minimumHold }, "released")
	locktest.RequireHeld(c, c.server, c.client, locktest.FaultKey)
	require.ErrorIs(c, c.newLock().TryLock(c.Context()), relock.ErrLockAcquiredByOthers)
}

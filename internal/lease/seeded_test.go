package lease_test

import (
	"context"
	"errors"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// What somebody could get wrong without another test seeing it soon. See the
// faults of docs/proof.md.

// requests are what a kind of lock sends.
type requests struct{ acquire, again, renew, release faults.Match }

var requestsOf = map[string]requests{
	"RedisLock": {
		faults.Command("SET"), faults.Script(script.Acquire.SHA), faults.Script(script.Renew.SHA), faults.Script(script.Release.SHA),
	},
	"ReentrantLock": {
		faults.Script(script.ReentrantAcquire.SHA), faults.Script(script.ReentrantEnter.SHA),
		faults.Script(script.ReentrantRenew.SHA), faults.Script(script.ReentrantRelease.SHA),
	},
}

// seededRun is a test for each kind of lock.
type seededRun func(c *locktest.Cell, kind string, r requests)

// seeded runs a test for each kind of lock, on a cell of its own.
func seeded(t *testing.T, run seededRun, opts ...relock.ClientOption) {
	t.Helper()
	seededAll(t, map[string]seededRun{"": run}, opts...)
}

// seededAll runs several at the same time.
func seededAll(t *testing.T, runs map[string]seededRun, opts ...relock.ClientOption) {
	t.Helper()
	s := locktest.NewFaultServer(t)
	opts = append([]relock.ClientOption{relock.WithCommandTimeout(locktest.DefaultCommandTimeout)}, opts...)
	var cells []locktest.CellRun
	for name, run := range runs {
		for kind, r := range requestsOf {
			cells = append(cells, locktest.CellRun{Name: path.Join(name, kind), Run: func(t testing.TB) { run(locktest.NewCell(t, s, opts...), kind, r) }})
		}
	}
	locktest.Together(t, cells)
}

// seededLease is short, as a renewal is waited for, and leaves time for a
// second try.
const seededLease = 2400 * time.Millisecond

const loading = "LOADING Redis is loading the dataset in memory"

// A renewal that fails is sent again, and the hold goes on.
func TestRenewalErrorsAreSurvived(t *testing.T) {
	runs := map[string]seededRun{}
	for name, action := range map[string]faults.Action{"error line": faults.ErrorLine(loading), "cut": faults.CutBefore} {
		runs[name] = func(c *locktest.Cell, kind string, r requests) {
			done := c.Proxy.On(r.renew, 1, action)
			h := c.Take(kind, relock.WithWatchdog(seededLease))
			until := h.ValidUntil()
			c.Await(done, "not renewed")
			c.WaitFor(locktest.CellPatience, func() bool { return h.ValidUntil().After(until) || h.Err() != nil }, "not renewed again")
			require.NoError(c, h.Err())
			require.NoError(c, h.Unlock(c.Context()))
		}
	}
	seededAll(t, runs)
}

// From the moment that a release is sent, no renewal is.
func TestNoRenewalAfterTheRelease(t *testing.T) {
	seeded(t, func(c *locktest.Cell, kind string, r requests) {
		h := c.Take(kind, relock.WithWatchdog(30*time.Second))
		c.Proxy.On(r.release, faults.Every, faults.ErrorLine(loading))
		result := testkit.Async(c, func() error { return h.Unlock(c.Context()) })
		require.True(c, c.Proxy.Await(r.release, 1, locktest.CellPatience))
		locktest.LeaseOf(h).RenewNow() // it is due now
		require.ErrorIs(c, testkit.ResultWithin(c, result, 2*locktest.CellPatience), relock.ErrUnconfirmed)
		require.Zero(c, c.Proxy.Count(r.renew))
	}, relock.WithCommandTimeout(time.Second))
}

// A SET whose answer never comes is given back, so what takes the lock after it
// has another value.
func TestUnansweredSETIsNotBelieved(t *testing.T) {
	c := locktest.NewCell(t, locktest.NewFaultServer(t))
	c.Proxy.On(faults.Command("SET"), 1, faults.CutAfter)
	h := c.Take("RedisLock")
	require.True(t, c.Proxy.Await(requestsOf["RedisLock"].release, 2, locktest.CellPatience), "the SET is given back, also late")
	require.Equal(t, 1, c.Levels())
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(t.Context()))
}

// An error line may come instead of the answer of a script that was executed.
func TestErrorLinesAreCleanedUp(t *testing.T) {
	seeded(t, func(c *locktest.Cell, kind string, r requests) {
		done := c.Proxy.On(r.acquire, 1, faults.ExecuteThenError(loading))
		require.ErrorContains(c, locktest.Kinds[kind](locktest.CellKey, c.Client).Lock(c.Context()), "LOADING")
		c.Await(done, "not executed")
		c.RequireLevels(0)
	})
}

// A re-entry that failed here but not there is undone.
func TestFailedReentryIsUndone(t *testing.T) {
	c := locktest.NewCell(t, locktest.NewFaultServer(t))
	h := c.Take("ReentrantLock")
	done := c.Proxy.On(requestsOf["ReentrantLock"].again, 1, faults.ExecuteThenError(loading))
	require.ErrorContains(t, relock.NewReentrantLock(locktest.CellKey, c.Client).Lock(t.Context()), "LOADING")
	c.Await(done, "not executed")
	c.RequireLevels(1)
	require.NoError(t, h.Unlock(t.Context()))
}

// A copy of the acquire that comes after the release takes the key again, and
// is given back.
func TestLateCopyOfAnAcquireIsFreed(t *testing.T) {
	seeded(t, func(c *locktest.Cell, kind string, r requests) {
		sent := r.acquire
		if kind == "RedisLock" {
			c.Proxy.On(r.acquire, 1, faults.CutBefore)
			sent = r.again
		}
		c.Proxy.On(sent, 1, faults.HoldAndCut)
		h := c.Take(kind)
		require.NoError(c, h.Unlock(c.Context()))
		require.Equal(c, []string{":1"}, c.Proxy.Release(), "the late copy did not take the key")
		c.RequireLevels(0)
	})
}

// A release that finds nothing may stand for an earlier copy that has done the
// work, but only while the lease cannot have ended.
func TestUnlockAfterTheBeliefIsNoSuccess(t *testing.T) {
	const lease = 600 * time.Millisecond
	seeded(t, func(c *locktest.Cell, kind string, r requests) {
		h := c.Take(kind, relock.WithExpiry(lease))
		c.Proxy.On(r.release, 1, faults.DropRequest)
		<-time.After(time.Until(h.ValidUntil()) - lease/6) // the first copy has this time for its answer
		result := testkit.Async(c, func() error { return h.Unlock(c.Context()) })
		c.Proxy.Await(r.release, 1, locktest.CellPatience) // none is sent where the belief ended before the Unlock
		c.Server.Do(c, "DEL", c.Bench.Key)
		err := testkit.ResultWithin(c, result, locktest.CellPatience)
		require.Error(c, err)
		if !errors.Is(err, relock.ErrUnconfirmed) {
			require.ErrorIs(c, err, relock.ErrLockLost)
		}
	})
}

// A waiter that sleeps wakes when its context ends, and when the client is
// closed.
func TestWaiterSleepsNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			require.NoError(t, newLock("k", c).Lock(t.Context()))
			const end, poll, limit = 200 * time.Millisecond, 4 * time.Second, 2 * time.Second
			waiter := newLock("k", locktest.Sibling(t, s, c), relock.WithBlock(), relock.WithPollInterval(poll))
			ctx, cancel := context.WithTimeout(t.Context(), end)
			defer cancel()
			result := testkit.Async(t, func() error { return waiter.Lock(ctx) })
			require.ErrorIs(t, testkit.ResultWithin(t, result, limit), context.DeadlineExceeded)

			closed := locktest.Sibling(t, s, c)
			waiter = newLock("k", closed, relock.WithBlock(), relock.WithPollInterval(poll))
			result = testkit.Async(t, func() error { return waiter.Lock(t.Context()) })
			<-time.After(end) // it sleeps by then; were it still asking, it would have to end just the same
			require.NoError(t, closed.Close())
			require.ErrorIs(t, testkit.ResultWithin(t, result, limit), relock.ErrClosed)
		})
	}
}

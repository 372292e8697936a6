package relock

import (
	"context"
	"errors"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
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
type seededRun func(c *cell, kind string, r requests)

// seeded runs a test for each kind of lock, on a cell of its own.
func seeded(t *testing.T, run seededRun, opts ...ClientOption) {
	t.Helper()
	seededAll(t, map[string]seededRun{"": run}, opts...)
}

// seededAll runs several at the same time.
func seededAll(t *testing.T, runs map[string]seededRun, opts ...ClientOption) {
	t.Helper()
	s := newFaultServer(t)
	opts = append([]ClientOption{WithCommandTimeout(defaultCommandTimeout)}, opts...)
	var cells []cellRun
	for name, run := range runs {
		for kind, r := range requestsOf {
			cells = append(cells, cellRun{path.Join(name, kind), func(t testing.TB) { run(newCell(t, s, opts...), kind, r) }})
		}
	}
	together(t, cells)
}

// take acquires the cell's lock once more.
func (c *cell) take(kind string, opts ...LockOption) Hold {
	c.Helper()
	h, err := kinds[kind](cellKey, c.client, opts...).Acquire(c.Context())
	require.NoError(c, err)
	return h
}

// seededLease is short, as a renewal is waited for, and leaves time for a
// second try.
const seededLease = 2400 * time.Millisecond

const loading = "LOADING Redis is loading the dataset in memory"

// A renewal that fails is sent again, and the hold goes on.
func TestRenewalErrorsAreSurvived(t *testing.T) {
	runs := map[string]seededRun{}
	for name, action := range map[string]faults.Action{"error line": faults.ErrorLine(loading), "cut": faults.CutBefore} {
		runs[name] = func(c *cell, kind string, r requests) {
			done := c.proxy.On(r.renew, 1, action)
			h := c.take(kind, WithWatchdog(seededLease))
			until := h.ValidUntil()
			c.await(done, "not renewed")
			c.waitFor(cellPatience, func() bool { return h.ValidUntil().After(until) || h.Err() != nil }, "not renewed again")
			require.NoError(c, h.Err())
			require.NoError(c, h.Unlock(c.Context()))
		}
	}
	seededAll(t, runs)
}

// From the moment that a release is sent, no renewal is.
func TestNoRenewalAfterTheRelease(t *testing.T) {
	seeded(t, func(c *cell, kind string, r requests) {
		h := c.take(kind, WithWatchdog(30*time.Second))
		c.proxy.On(r.release, faults.Every, faults.ErrorLine(loading))
		result := testkit.Async(c, func() error { return h.Unlock(c.Context()) })
		require.True(c, c.proxy.Await(r.release, 1, cellPatience))
		leaseOf(h).RenewNow() // it is due now
		require.ErrorIs(c, testkit.ResultWithin(c, result, 2*cellPatience), ErrUnconfirmed)
		require.Zero(c, c.proxy.Count(r.renew))
	}, WithCommandTimeout(time.Second))
}

// A SET whose answer never comes is given back, so what takes the lock after it
// has another value.
func TestUnansweredSETIsNotBelieved(t *testing.T) {
	c := newCell(t, newFaultServer(t))
	c.proxy.On(faults.Command("SET"), 1, faults.CutAfter)
	h := c.take("RedisLock")
	require.True(t, c.proxy.Await(requestsOf["RedisLock"].release, 2, cellPatience), "the SET is given back, also late")
	require.Equal(t, 1, c.levels())
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(t.Context()))
}

// An error line may come instead of the answer of a script that was executed.
func TestErrorLinesAreCleanedUp(t *testing.T) {
	seeded(t, func(c *cell, kind string, r requests) {
		done := c.proxy.On(r.acquire, 1, faults.ExecuteThenError(loading))
		require.ErrorContains(c, kinds[kind](cellKey, c.client).Lock(c.Context()), "LOADING")
		c.await(done, "not executed")
		c.requireLevels(0)
	})
}

// A re-entry that failed here but not there is undone.
func TestFailedReentryIsUndone(t *testing.T) {
	c := newCell(t, newFaultServer(t))
	h := c.take("ReentrantLock")
	done := c.proxy.On(requestsOf["ReentrantLock"].again, 1, faults.ExecuteThenError(loading))
	require.ErrorContains(t, NewReentrantLock(cellKey, c.client).Lock(t.Context()), "LOADING")
	c.await(done, "not executed")
	c.requireLevels(1)
	require.NoError(t, h.Unlock(t.Context()))
}

// A copy of the acquire that comes after the release takes the key again, and
// is given back.
func TestLateCopyOfAnAcquireIsFreed(t *testing.T) {
	seeded(t, func(c *cell, kind string, r requests) {
		sent := r.acquire
		if kind == "RedisLock" {
			c.proxy.On(r.acquire, 1, faults.CutBefore)
			sent = r.again
		}
		c.proxy.On(sent, 1, faults.HoldAndCut)
		h := c.take(kind)
		require.NoError(c, h.Unlock(c.Context()))
		require.Equal(c, []string{":1"}, c.proxy.Release(), "the late copy did not take the key")
		c.requireLevels(0)
	})
}

// A release that finds nothing may stand for an earlier copy that has done the
// work, but only while the lease cannot have ended.
func TestUnlockAfterTheBeliefIsNoSuccess(t *testing.T) {
	const lease = 600 * time.Millisecond
	seeded(t, func(c *cell, kind string, r requests) {
		h := c.take(kind, WithExpiry(lease))
		c.proxy.On(r.release, 1, faults.DropRequest)
		<-time.After(time.Until(h.ValidUntil()) - lease/6) // the first copy has this time for its answer
		result := testkit.Async(c, func() error { return h.Unlock(c.Context()) })
		c.proxy.Await(r.release, 1, cellPatience) // none is sent where the belief ended before the Unlock
		c.server.Do(c, "DEL", c.bench.Key)
		err := testkit.ResultWithin(c, result, cellPatience)
		require.Error(c, err)
		if !errors.Is(err, ErrUnconfirmed) {
			require.ErrorIs(c, err, ErrLockLost)
		}
	})
}

// A waiter that sleeps wakes when its context ends, and when the client is
// closed.
func TestWaiterSleepsNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			require.NoError(t, newLock("k", c).Lock(t.Context()))
			const end, poll, limit = 200 * time.Millisecond, 4 * time.Second, 2 * time.Second
			waiter := newLock("k", sibling(t, s, c), WithBlock(), WithPollInterval(poll))
			ctx, cancel := context.WithTimeout(t.Context(), end)
			defer cancel()
			result := testkit.Async(t, func() error { return waiter.Lock(ctx) })
			require.ErrorIs(t, testkit.ResultWithin(t, result, limit), context.DeadlineExceeded)

			closed := sibling(t, s, c)
			waiter = newLock("k", closed, WithBlock(), WithPollInterval(poll))
			result = testkit.Async(t, func() error { return waiter.Lock(t.Context()) })
			<-time.After(end) // it sleeps by then; were it still asking, it would have to end just the same
			require.NoError(t, closed.Close())
			require.ErrorIs(t, testkit.ResultWithin(t, result, limit), ErrClosed)
		})
	}
}

package lease_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A plain lock whose SET and whose script were answered after their leases is
// released twice, and acquired with a third value. No value is used again.
func TestGrantAfterItsLease(t *testing.T) {
	t.Parallel()
	c := locktest.NewFaultBench(t, locktest.NewServerWithScripts(t))
	release := requestsOf["RedisLock"].release
	lateAnswers(c.Client, 2)
	c.Proxy.On(release, faults.Every, faults.HoldOnly)
	h := c.Take("RedisLock", relock.WithBlock(), relock.WithWatchdog(5*time.Second)) // when the key has expired
	require.NoError(t, h.Err())
	require.True(t, c.Proxy.Await(release, 2, testkit.Patience), "released")
	before := c.State().Content
	c.Proxy.Release()
	require.Equal(t, before, c.State().Content)
	require.NoError(t, h.Err())
}

// A reentrant one is not acquired again under the hold ID that was released: it
// waits for its own release. A fair one is granted the ID of its queue entry.
func TestReentrantGrantAfterItsLease(t *testing.T) {
	locktest.EachMode(t, []locktest.QueueMode{
		locktest.ReentrantUnfair, locktest.ReentrantFair,
	}, func(t testing.TB, m locktest.QueueMode) {
		c := locktest.NewFaultBench(t, locktest.NewServerWithScripts(t))
		lateAnswers(c.Client, 1)
		// All copies: where the first has made the connection of callers
		// silent, the second is sent before the waiting request.
		var open atomic.Bool
		for _, ends := range []faults.Match{requestsOf["ReentrantLock"].release, faults.Script(script.Cancel.SHA)} {
			kept := func(args []string) bool { return !open.Load() && ends(args) }
			c.Proxy.On(kept, faults.Every, faults.HoldOnly)
		}
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		defer cancel()
		lock := locktest.Owned("me", m.Lock(c.Client))
		result := testkit.Async(t, func() error { return lock.Lock(ctx) })
		enqueued := map[bool]int{false: 1, true: 2}[m.Fair] // a fair lock's late request is one, too
		require.True(t, c.Proxy.Await(faults.Script(script.Enqueue.SHA), enqueued, testkit.Patience),
			"it has to wait for its own release")
		holdID := func() string { return c.State().Content.(map[string]string)["hold"] }
		late := holdID()
		open.Store(true)
		c.Proxy.Release()
		require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
		require.Equal(t, 1, c.Levels())
		require.NotEqual(t, late, holdID())
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

// A hold whose lease or maximum hold is over when the answer comes is granted
// to nobody. Its key is not kept for its minimum hold.
func TestLateGrantIsNotKept(t *testing.T) {
	t.Parallel()
	s := locktest.NewServerWithScripts(t)
	// a late answer looks as if it had taken an hour
	long, short := relock.WithMinHold(3*time.Hour), relock.WithMaxHold(50*time.Millisecond)
	left := func(c *locktest.FaultBench, key string) time.Duration {
		return locktest.PTTL(c, c.Server, c.Client, key)
	}
	late := func(c *locktest.FaultBench, lock locktest.AnyLock) {
		err := lock.TryLock(c.Context())
		require.ErrorIs(c, err, lease.ErrLate)
		require.True(c, relock.IsRetryableErr(err))
		for _, key := range []string{locktest.FaultKey, locktest.OtherKey} { // the second one is only of a MultiLock
			c.WaitFor(locktest.CleanWithin, func() bool { return left(c, key) == locktest.Absent }, "it is kept for nobody")
		}
	}
	var cells []locktest.Subtest
	modes := append([]locktest.QueueMode{{Kind: "MultiLock"}, {Kind: "MultiLock"}, {Kind: "RWLock"}},
		locktest.QueueModes...)
	for n, m := range modes {
		newBench := func(t testing.TB) *locktest.FaultBench {
			c := locktest.NewFaultBench(t, s)
			locktest.Engine(c.Client).OneByOne.Store(n == 0)
			return c
		}
		cells = append(cells,
			locktest.Subtest{Name: fmt.Sprint(n, ", ", m.Title(), "/maximum hold"), Run: func(t testing.TB) {
				c := newBench(t)
				c.Proxy.On(faults.Any, 1, faults.Delay(100*time.Millisecond))
				late(c, m.Lock(c.Client, short))
			}})
		if m.Kind == "RWLock" {
			continue // has no minimum hold
		}
		cells = append(cells, locktest.Subtest{Name: fmt.Sprint(n, ", ", m.Title(), "/lease"), Run: func(t testing.TB) {
			c := newBench(t)
			lock := m.Lock(c.Client, long)
			lateAnswers(c.Client, 1)
			late(c, lock)
			require.NoError(t, lock.TryLock(t.Context()))
			require.NoError(t, lock.Unlock(t.Context()))
			require.Greater(t, left(c, locktest.FaultKey), 2*time.Hour, "what was held is kept")
		}})
	}
	locktest.RunTogether(t, cells)
}

// What an object is granted while it has a lost hold that is not unlocked is
// not kept either.
func TestGrantThatTheObjectCannotTakeIsNotKept(t *testing.T) {
	t.Parallel()
	opts := []relock.LockOption{relock.WithBlock(), relock.WithMinHold(time.Minute)}
	type making func(c *relock.Client) locktest.AnyLock
	testkit.Each(t, map[string]making{
		"RedisLock": func(c *relock.Client) locktest.AnyLock { return relock.NewRedisLock("k", c, opts...) },
		"MultiLock": func(c *relock.Client) locktest.AnyLock { return relock.NewMultiLock([]string{"k", "l"}, c, opts...) },
	}, func(t *testing.T, _ string, newLock making) {
		s, c := locktest.OnShared(t)
		lock := newLock(c)
		require.NoError(t, lock.Lock(t.Context()))
		for _, l := range locktest.Engine(c).Leases() {
			l.Lose(relock.ErrLockLost)
		}
		s.Do(t, "DEL", locktest.KeyOf(c, "k"), locktest.KeyOf(c, "l"))
		waiting := testkit.Async(t, func() error { return lock.Lock(t.Context()) })
		cannot := func() bool { return c.Stats().Waiting == 1 }
		testkit.Eventually(t, testkit.Patience, cannot, "it has got the key, and cannot take it")
		locktest.EventuallyWithin(t, locktest.CleanWithin,
			func() bool { return locktest.PTTL(t, s, c, "k") == locktest.Absent }, "it is released")
		require.Empty(t, waiting, "the object is taken until the Unlock")
		locktest.RequireIs(t, lock.Unlock(t.Context()), relock.ErrLockLost, relock.ErrNotHeld)
		require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))
		locktest.RequireHeld(t, s, c, "k")
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

package lease_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// A lease expires at its time, whichever of the others expire before, are
// extended or are released meanwhile.
func TestLeasesExpireInTheirOrder(t *testing.T) {
	timed(t, func(t *testing.T, e *engine) {
		take := func(name string, d time.Duration) *lease.Hold { return e.take(t, lockspec.Plain, name, fixed(d)) }
		start := time.Now()
		long, short, extended, unlocked := take("long", 60*time.Second), take("short", 21*time.Second), take("extended", 27*time.Second), take("unlocked", 27*time.Second)
		require.NoError(t, extended.Extend(t.Context(), 39*time.Second))
		require.NoError(t, unlocked.Unlock())
		for _, tt := range []struct {
			hold  *lease.Hold
			after time.Duration
		}{{short, 21 * time.Second}, {extended, 39 * time.Second}, {long, 60 * time.Second}} {
			require.ErrorIs(t, testkit.EndedWithin(t, tt.hold.Context(), time.Hour), errs.ErrLockLost)
			require.Equal(t, tt.after-lockspec.Drift(tt.after), time.Since(start), tt.hold.Key())
		}
		require.ErrorIs(t, context.Cause(unlocked.Context()), errs.ErrNotHeld)
	})
}

// Leases that expire together, as in an outage, are all lost in time, without a
// goroutine for each.
func TestManyLeasesExpireTogether(t *testing.T) {
	const leases, length = 2000, 3 * time.Second
	most, ends := 0, map[time.Time]int{}
	hooks := lease.Hooks{HoldDone: func(_ context.Context, e holds.End) {
		most = max(most, runtime.NumGoroutine())
		ends[e.End]++
	}}
	testkit.Bubble(t, func(t *testing.T) {
		e := newEngine(t, io.Discard, hooks)
		all := make([]*lease.Hold, leases)
		for i := range all {
			all[i] = e.take(t, lockspec.Plain, fmt.Sprint("k", i), fixed(length))
			all[i].Announce()
		}
		before, until := runtime.NumGoroutine(), all[0].ValidUntil()
		time.Sleep(length)
		synctest.Wait()
		require.Equal(t, map[time.Time]int{until: leases}, ends)
		require.Less(t, most, before+50)
		for _, h := range all {
			require.ErrorIs(t, context.Cause(h.Context()), errs.ErrLockLost)
			require.ErrorIs(t, h.Unlock(), errs.ErrLockLost)
		}
		require.Zero(t, e.State().Timers)
	})
}

// The context of a hold of several keys is cancelled before losses of other
// locks are logged.
func TestHoldsExpireBeforeAnyIsLogged(t *testing.T) {
	t.Parallel()
	stuck := locktest.NewStuckLog(t)
	e := newEngine(t, stuck, lease.Hooks{})
	var leases []*lease.Lease
	for i := range 100 {
		leases = append(leases, e.take(t, lockspec.Plain, fmt.Sprint("k", i), fixed(time.Hour)).Lease())
	}
	several := e.take(t, lockspec.Multi, "several", fixed(time.Hour))
	ctx, end := several.Context(), time.Now().Add(time.Second)
	rush := func(l *lease.Lease, after time.Duration) {
		l.Set(func(s *lease.State) { s.ValidUntil = end.Add(after) })
		l.StartTimer()
	}
	for _, l := range leases {
		rush(l, 0)
	}
	for _, one := range several.Members() {
		rush(one.Lease(), time.Nanosecond) // the last ones of the batch
	}
	stuck.Await(t)
	require.ErrorIs(t, testkit.EndedWithin(t, ctx, testkit.Patience), errs.ErrLockLost)
	stuck.Free()
}

// The validity of a hold that the server has refused ends sooner while other
// calls begin and end theirs: a test for the race detector.
func TestRefusedHoldBesideOthers(t *testing.T) {
	t.Parallel()
	e := newEngine(t, io.Discard, lease.Hooks{})
	e.answer = func(driver.Request) (time.Duration, error) { return 20 * time.Microsecond, nil }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, key := range []string{"a", "b", "c", "d"} {
		testkit.Async(t, func() error {
			for ctx.Err() == nil {
				if h, err := e.try(ctx, lockspec.Plain, key); err == nil {
					_ = h.Unlock()
				}
			}
			return nil
		})
	}
	h := e.take(t, lockspec.Plain, "k", fixed(time.Hour))
	for n := range 2000 { // the pauses let the others change places with it
		h.Lease().Refuse(time.Hour/2 - time.Duration(n)*time.Millisecond)
		time.Sleep(10 * time.Microsecond)
	}
	require.NoError(t, h.Unlock())
}

// The clock decides, not whether a timer has fired: an answer that comes when
// the lease is not valid any more revives nothing, and a maximum hold ends.
func TestClockDecidesWithoutTimers(t *testing.T) {
	timed(t, func(t *testing.T, e *engine) {
		h := e.take(t, lockspec.Plain, "late", fixed(2400*time.Millisecond))
		h.Lease().StopTimer()
		time.Sleep(time.Until(h.ValidUntil()))
		require.ErrorIs(t, h.Lease().Renewed(time.Now(), time.Minute), errs.ErrLockLost)
		require.ErrorIs(t, h.Err(), errs.ErrLockLost)

		h = e.take(t, lockspec.Plain, "asked", fixed(800*time.Millisecond))
		h.Lease().StopTimer()
		time.Sleep(time.Until(h.ValidUntil()))
		require.ErrorIs(t, h.Err(), errs.ErrLockLost)
		require.ErrorIs(t, context.Cause(h.Context()), errs.ErrLockLost)

		h = e.take(t, lockspec.Plain, "maximum", func(s *lockspec.Spec) { s.MaxHold = time.Second })
		require.Equal(t, time.Now().Add(time.Second), h.ValidUntil())
		time.Sleep(time.Until(h.StopMaxHold()))
		require.ErrorIs(t, h.Err(), errs.ErrMaxHold)
		require.Zero(t, h.ValidUntil())
		require.ErrorIs(t, h.Unlock(), errs.ErrMaxHold)
	})
}

// However long an answer takes, validity counts from before the request was at
// the server.
func TestValidityCountsFromTheSending(t *testing.T) {
	t.Parallel()
	const length = locktest.FaultLease
	eachKind(t, map[string]kindTest{
		"acquire": func(c *locktest.FaultBench, kind string, r requests) {
			c.DelayThenLose(r.acquire)
			c.RequireValidity(c.Take(kind), r.acquire, length)
		},
		"script or re-entry": func(c *locktest.FaultBench, kind string, r requests) {
			if kind == "RedisLock" {
				c.Proxy.On(r.acquire, 1, faults.CutBefore)
			} else {
				c.Take(kind)
			}
			c.DelayThenLose(r.again)
			c.RequireValidity(c.Take(kind), r.again, length)
		},
		"renewal": func(c *locktest.FaultBench, kind string, r requests) {
			c.DelayThenLose(r.renew)
			h := c.Take(kind, relock.WithWatchdog(length))
			before := h.ValidUntil()
			locktest.LeaseOf(h).RenewNow()
			c.WaitFor(locktest.FaultPatience, func() bool { return h.ValidUntil() != before }, "not renewed")
			c.RequireValidity(h, r.renew, length)
		},
		"Extend": func(c *locktest.FaultBench, kind string, r requests) {
			h := c.Take(kind, relock.WithExpiry(length))
			c.DelayThenLose(r.renew)
			require.NoError(c, h.Extend(c.Context(), 2*length))
			c.RequireValidity(h, r.renew, 2*length)
		},
	})
}

// A plain lock whose SET and whose script were answered after their leases is
// released twice, and acquired with a third value. No value is used again.
func TestGrantAfterItsLease(t *testing.T) {
	t.Parallel()
	c := locktest.NewFaultBench(t, locktest.NewServerWithScripts(t))
	release := requestsOf["RedisLock"].release
	c.LateAnswers(2)
	c.Proxy.On(release, faults.Every, faults.HoldOnly)
	h := c.Take("RedisLock", relock.WithBlock(), relock.WithWatchdog(5*time.Second)) // when the key has expired
	require.NoError(t, h.Err())
	require.True(t, c.Proxy.Await(release, 2, testkit.Patience), "released")
	before := c.Bench.State().Content
	c.Proxy.Release()
	require.Equal(t, before, c.Bench.State().Content)
	require.NoError(t, h.Err())
}

// A reentrant one is not acquired again under the hold ID that was released: it
// waits for its own release. A fair one is granted the ID of its queue entry.
func TestReentrantGrantAfterItsLease(t *testing.T) {
	locktest.EachMode(t, []locktest.QueueMode{locktest.ReentrantUnfair, locktest.ReentrantFair}, func(t testing.TB, m locktest.QueueMode) {
		c := locktest.NewFaultBench(t, locktest.NewServerWithScripts(t))
		c.LateAnswers(1)
		c.Proxy.On(requestsOf["ReentrantLock"].release, 1, faults.HoldOnly)
		c.Proxy.On(faults.Script(script.Cancel.SHA), 1, faults.HoldOnly)
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		defer cancel()
		lock := locktest.Owned("me", m.Lock(c.Client))
		result := testkit.Async(t, func() error { return lock.Lock(ctx) })
		enqueued := map[bool]int{false: 1, true: 2}[m.Fair] // a fair lock's late request is one, too
		require.True(t, c.Proxy.Await(faults.Script(script.Enqueue.SHA), enqueued, testkit.Patience), "it has to wait for its own release")
		holdID := func() string { return c.Bench.State().Content.(map[string]string)["hold"] }
		late := holdID()
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
	long, short := relock.WithMinHold(3*time.Hour), relock.WithMaxHold(50*time.Millisecond) // a late answer looks as if it had taken an hour
	left := func(c *locktest.FaultBench, key string) time.Duration {
		return locktest.PTTL(c, c.Server, c.Client, key)
	}
	late := func(c *locktest.FaultBench, lock locktest.AnyLock) {
		err := lock.TryLock(c.Context())
		require.ErrorIs(c, err, lease.ErrLate)
		require.True(c, relock.IsRetryableErr(err))
		for _, key := range []string{locktest.FaultKey, locktest.OtherKey} { // the second one is only of a MultiLock
			c.WaitFor(locktest.CleanWithin, func() bool { return left(c, key) == scripttest.Absent }, "it is kept for nobody")
		}
	}
	var cells []locktest.Subtest
	modes := append([]locktest.QueueMode{{Kind: "MultiLock"}, {Kind: "MultiLock"}, {Kind: "RWLock"}}, locktest.QueueModes...)
	for n, m := range modes {
		newBench := func(t testing.TB) *locktest.FaultBench {
			c := locktest.NewFaultBench(t, s)
			locktest.Engine(c.Client).OneByOne.Store(n == 0)
			return c
		}
		cells = append(cells, locktest.Subtest{Name: fmt.Sprint(n, ", ", m.Title(), "/maximum hold"), Run: func(t testing.TB) {
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
			c.LateAnswers(1)
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
	type making func(c *relock.Client) (l locktest.AnyLock, isAwaited func() bool)
	testkit.Each(t, map[string]making{
		"RedisLock": func(c *relock.Client) (locktest.AnyLock, func() bool) {
			l := relock.NewRedisLock("k", c, opts...)
			return l, locktest.Plain(l).IsAwaited
		},
		"MultiLock": func(c *relock.Client) (locktest.AnyLock, func() bool) {
			l := relock.NewMultiLock([]string{"k", "l"}, c, opts...)
			return l, locktest.Multi(l).IsAwaited
		},
	}, func(t *testing.T, _ string, newLock making) {
		s, c := locktest.OnShared(t)
		lock, isAwaited := newLock(c)
		require.NoError(t, lock.Lock(t.Context()))
		for _, l := range locktest.Engine(c).Leases() {
			l.Lose(relock.ErrLockLost)
		}
		s.Do(t, "DEL", locktest.KeyOf(c, "k"), locktest.KeyOf(c, "l"))
		waiting := testkit.Async(t, func() error { return lock.Lock(t.Context()) })
		testkit.Eventually(t, testkit.Patience, isAwaited, "it has got the key, and cannot take it")
		locktest.EventuallyWithin(t, locktest.CleanWithin, func() bool { return locktest.PTTL(t, s, c, "k") == scripttest.Absent }, "it is released")
		require.Empty(t, waiting, "the object is taken until the Unlock")
		locktest.RequireIs(t, lock.Unlock(t.Context()), relock.ErrLockLost, relock.ErrNotHeld)
		require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))
		locktest.RequireHeld(t, s, c, "k")
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

// A level whose maximum hold is over when the answer comes leaves those around
// it as they are.
func TestLevelAfterItsMaximumHold(t *testing.T) {
	t.Parallel()
	c := locktest.NewFaultBench(t, locktest.NewServerWithScripts(t))
	outer := locktest.Owned("me", relock.NewReentrantLock(locktest.FaultKey, c.Client))
	require.NoError(t, outer.Lock(t.Context()))
	c.Proxy.On(faults.Any, 1, faults.Delay(100*time.Millisecond))
	err := locktest.Owned("me", relock.NewReentrantLock(locktest.FaultKey, c.Client, relock.WithMaxHold(50*time.Millisecond))).Lock(t.Context())
	require.ErrorIs(t, err, lease.ErrLate)
	require.NotErrorIs(t, err, relock.ErrLockLost, "the outer level is not")
	require.Equal(t, 1, outer.HoldCount(locktest.As(t, "me")))
	c.RequireLevels(1)
	require.NoError(t, outer.Unlock(t.Context()))
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrNotHeld)
}

// What was lost is released before anything is logged.
func TestLossIsLoggedLast(t *testing.T) {
	t.Parallel()
	stuck := locktest.NewStuckLog(t)
	defer stuck.Free()
	s, c := locktest.OnOwn(t, stuck.Option())
	for _, l := range []locktest.AnyLock{relock.NewRedisLock("one", c, relock.WithMaxHold(time.Hour)), relock.NewMultiLock([]string{"a", "b"}, c, relock.WithMaxHold(time.Hour))} {
		h := locktest.Take(t, l.Acquire)
		go locktest.Level(h).ReachMaxHold() // Close waits for its clean-up, the test for its end by freeing the log
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrMaxHold)
		stuck.Await(t)
		testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "DBSIZE") == int64(0) }, "keys are left")
	}
}

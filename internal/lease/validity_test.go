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
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A lease expires at its time, whichever of the others expire before, are
// extended or are released meanwhile.
func TestLeasesExpireInTheirOrder(t *testing.T) {
	timed(t, func(t *testing.T, e *engine) {
		take := func(name string, d time.Duration) *lease.Hold { return e.take(t, lockspec.Plain, name, fixed(d)) }
		start := time.Now()
		long, short, extended, unlocked := take("long", 60*time.Second), take("short", 21*time.Second),
			take("extended", 27*time.Second), take("unlocked", 27*time.Second)
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
	})
}

// The context of a hold of several keys is cancelled before losses of other
// locks are logged.
func TestHoldsExpireBeforeAnyIsLogged(t *testing.T) {
	t.Parallel()
	stuck := newStuckLog(t)
	e := newEngine(t, stuck, lease.Hooks{})
	var leases []*lease.Lease
	for i := range 100 {
		leases = append(leases, e.take(t, lockspec.Plain, fmt.Sprint("k", i), fixed(time.Hour)).Lease())
	}
	several := e.take(t, lockspec.Multi, "several", fixed(time.Hour))
	ctx, end := several.Context(), time.Now().Add(time.Second)
	rush := func(l *lease.Lease, after time.Duration) { l.EndBy(end.Add(after)) }
	for _, l := range leases {
		rush(l, 0)
	}
	for _, one := range several.Members() {
		rush(one.Lease(), time.Nanosecond) // the last ones of the batch
	}
	stuck.await(t)
	require.ErrorIs(t, testkit.EndedWithin(t, ctx, testkit.Patience), errs.ErrLockLost)
	stuck.free()
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
		h.Lease().EndBy(time.Now().Add(time.Hour/2 - time.Duration(n)*time.Millisecond))
		time.Sleep(10 * time.Microsecond)
	}
	require.NoError(t, h.Unlock())
}

// endBeforeTimer sleeps until h is not valid any more, which is before its
// timer fires.
func endBeforeTimer(h *lease.Hold) {
	h.Lease().Set(func(s *lease.State) { s.ValidUntil = time.Now().Add(100 * time.Millisecond) })
	time.Sleep(100 * time.Millisecond)
}

// The clock decides, not whether a timer has fired: an answer that comes when
// the lease is not valid any more revives nothing, and a maximum hold ends.
func TestClockDecidesWithoutTimers(t *testing.T) {
	timed(t, func(t *testing.T, e *engine) {
		h := e.take(t, lockspec.Plain, "late", fixed(2400*time.Millisecond))
		endBeforeTimer(h)
		require.ErrorIs(t, h.Lease().ExtendValidity(time.Now(), time.Minute), errs.ErrLockLost)
		require.ErrorIs(t, h.Err(), errs.ErrLockLost)

		h = e.take(t, lockspec.Plain, "asked", fixed(800*time.Millisecond))
		endBeforeTimer(h)
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
			delayThenLose(c, r.acquire)
			requireValidity(c, c.Take(kind), r.acquire, length)
		},
		"script or re-entry": func(c *locktest.FaultBench, kind string, r requests) {
			if kind == "RedisLock" {
				c.Proxy.On(r.acquire, 1, faults.CutBefore)
			} else {
				c.Take(kind)
			}
			delayThenLose(c, r.again)
			requireValidity(c, c.Take(kind), r.again, length)
		},
		"renewal": func(c *locktest.FaultBench, kind string, r requests) {
			delayThenLose(c, r.renew)
			h := c.Take(kind, relock.WithWatchdog(length))
			before := h.ValidUntil()
			leaseOf(h).RenewNow()
			c.WaitFor(locktest.FaultPatience, func() bool { return h.ValidUntil() != before }, "not renewed")
			requireValidity(c, h, r.renew, length)
		},
		"Extend": func(c *locktest.FaultBench, kind string, r requests) {
			h := c.Take(kind, relock.WithExpiry(length))
			delayThenLose(c, r.renew)
			require.NoError(c, h.Extend(c.Context(), 2*length))
			requireValidity(c, h, r.renew, 2*length)
		},
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
	err := locktest.Owned("me",
		relock.NewReentrantLock(locktest.FaultKey, c.Client, relock.WithMaxHold(50*time.Millisecond))).Lock(t.Context())
	require.ErrorIs(t, err, lease.ErrLate)
	require.NotErrorIs(t, err, relock.ErrLockLost, "the outer level is not")
	require.Equal(t, 1, relock.NewReentrantLock(locktest.FaultKey, c.Client).HoldCount(locktest.As(t, "me")))
	c.RequireLevels(1)
	require.NoError(t, outer.Unlock(t.Context()))
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrNotHeld)
}

// What was lost is released before anything is logged.
func TestLossIsLoggedLast(t *testing.T) {
	t.Parallel()
	stuck := newStuckLog(t)
	defer stuck.free()
	s, c := locktest.OnOwn(t, stuck.option())
	for _, l := range []locktest.AnyLock{
		relock.NewRedisLock("one", c, relock.WithMaxHold(time.Hour)),
		relock.NewMultiLock([]string{"a", "b"}, c, relock.WithMaxHold(time.Hour)),
	} {
		h := locktest.Take(t, l.Acquire)
		go locktest.Level(h).ReachMaxHold() // Close waits for its clean-up, the test for its end by freeing the log
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrMaxHold)
		stuck.await(t)
		testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "DBSIZE") == int64(0) }, "keys are left")
	}
}

// The error of a refused hold whose reason cannot be read in time is that the
// server no longer has it, not that it was not renewed.
func TestRefusedHoldWithoutAReason(t *testing.T) {
	t.Parallel()
	h := locktest.Take(t, relock.NewRedisLock("k", locktest.NewTestClient(t, redistest.Shared(t))).Acquire)
	leaseOf(h).EndBy(time.Now().Add(time.Millisecond))
	<-h.Context().Done()
	require.ErrorContains(t, h.Err(), "lock lost (the server no longer has it)")
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
}

// HoldCount does not wait for another call of the owner once its context is
// cancelled.
func TestHoldCountOfABusyOwner(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	l := relock.NewReentrantLock("k", c)
	ctx, cancel := context.WithCancel(locktest.As(t, "busy"))
	require.NoError(t, l.Lock(ctx))
	cancel()
	e := locktest.Engine(c)
	goOn := e.Block(lease.OwnerKey{Lock: "k", ID: e.Identity.Named("busy"), Family: lockspec.ReentrantFamily})
	require.Zero(t, l.HoldCount(ctx))
	goOn()
	require.Equal(t, 1, l.HoldCount(locktest.As(t, "busy")))
}

// A maximum hold ends each level by itself. The server keeps the lock for the
// level that goes on.
func TestMaximumHoldOfANestedLocker(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	l := locktest.NewLocker(t, c, relock.WithMaxHold(time.Hour))
	outer := locktest.TakeKey(t, t.Context(), l, "k")
	inner := locktest.TakeKey(t, outer.Context(), l, "k")
	require.Less(t, locktest.Level(outer).StopMaxHold(), locktest.Level(inner).StopMaxHold())
	locktest.Level(outer).ReachMaxHold()
	require.ErrorIs(t, testkit.EndedWithin(t, outer.Context(), testkit.Patience), relock.ErrMaxHold)
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); { // a release would come in the background
		require.NoError(t, inner.Err(), "the level goes on")
		require.ErrorIs(t, relock.TryDo(t.Context(), l, "k", locktest.Nothing), relock.ErrLockAcquiredByOthers)
		time.Sleep(5 * time.Millisecond)
	}
	_, err := l.Lock(context.WithoutCancel(outer.Context()), "k")
	require.ErrorIs(t, err, relock.ErrLockLost)
	locktest.Level(inner).ReachMaxHold()
	require.ErrorIs(t, testkit.EndedWithin(t, inner.Context(), testkit.Patience), relock.ErrMaxHold)
	for _, h := range []relock.Hold{outer, inner} {
		locktest.RequireIs(t, h.Unlock(t.Context()), relock.ErrMaxHold, relock.ErrNotHeld)
	}
	require.NoError(t, relock.Do(t.Context(), l, "k", locktest.Nothing))
}

// A hold that ends between the look at it and the request for one level more
// asks for none.
func TestNoLevelOfAHoldThatHasEnded(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	for _, tt := range []struct {
		lock locktest.AnyLock
		loss error
	}{
		{relock.NewReentrantLock("k", c), relock.ErrForced},
		{relock.NewRWLock("rw", c), relock.ErrLockLost},
	} {
		level := locktest.Level(locktest.Take(t, tt.lock.Acquire))
		level.Lease().Lose(tt.loss)
		err := level.Lease().Deeper(level.Settings())
		require.ErrorIs(t, err, tt.loss)
	}
}

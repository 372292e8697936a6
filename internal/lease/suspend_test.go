package lease_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/kinds/redlock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/suspend"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// noLoss is how long a machine may be suspended without a loss.
const noLoss = 250 * time.Millisecond

// A machine that was suspended has lost its holds, though its clock says that
// the leases are young. The locks are released.
func TestSuspendedMachineHasLostItsHolds(t *testing.T) {
	eachTimed(t, ownKinds, func(t *testing.T, e *engine, kind *lockspec.Kind) {
		asked, other := e.take(t, kind, "asked"), e.take(t, kind, "other", fixed(time.Hour))
		e.suspend(noLoss)
		require.NoError(t, asked.Err())
		time.Sleep(2 * suspend.Pause)
		require.NoError(t, other.Context().Err(), "that was no suspend")

		e.suspend(noLoss + time.Millisecond)
		require.ErrorIs(t, asked.Err(), errs.ErrLockLost)
		require.ErrorIs(t, context.Cause(other.Context()), errs.ErrLockLost)
		require.ErrorIs(t, asked.Unlock(), errs.ErrLockLost)
		require.ErrorIs(t, other.Unlock(), errs.ErrLockLost)
		synctest.Wait()
		releases := map[*lockspec.Kind]*script.Script{
			lockspec.Plain: script.Release, lockspec.Reentrant: script.ReentrantRelease,
		}
		require.Equal(t, 2, e.calls(releases[kind]), "both are released")
		require.NoError(t, e.take(t, kind, "asked").Unlock())
	})
}

// takeQuorum acquires a lock on five machines that are suspended together.
func takeQuorum(t *testing.T) (suspend func(time.Duration), take func() *lease.Hold) {
	var nodes []*engine
	var managers []*lease.Manager
	for range 5 {
		e := newEngine(t, io.Discard, lease.Hooks{})
		e.stopTicks() // only calls check
		nodes, managers = append(nodes, e), append(managers, e.Manager)
	}
	suspend = func(d time.Duration) {
		for _, e := range nodes {
			e.suspend(d)
		}
	}
	var p lockspec.Problems
	target := &acquire.Target{Settings: lockspec.Resolve(lockspec.Options{}, lockspec.Options{}, lockspec.Quorum, &p)}
	target.Use(managers[0], "k")
	l := redlock.New(target, managers, func(_ int, err error) error { return err })
	return suspend, func() *lease.Hold {
		h, _, err := l.Take(t.Context(), false, false)
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, h.Members(), 5, "all nodes grant it: a later grant checks too")
		return h
	}
}

// A caller that asks while the suspend is still logged gets no other answer.
func TestSuspendIsLostForAllBeforeItIsLogged(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		stuck := newStuckLog(t)
		e := newEngine(t, stuck, lease.Hooks{})
		holds := []*lease.Hold{e.take(t, lockspec.Plain, "a"), e.take(t, lockspec.Plain, "b"), e.take(t, lockspec.Plain, "c")}
		e.suspend(time.Minute)
		first := testkit.Async(t, holds[0].Err)
		defer stuck.free()
		stuck.await(t)
		for _, h := range holds[1:] {
			require.ErrorIs(t, h.Err(), errs.ErrLockLost)
			require.ErrorIs(t, context.Cause(h.Context()), errs.ErrLockLost)
		}
		stuck.free()
		require.ErrorIs(t, testkit.ResultWithin(t, first, testkit.Patience), errs.ErrLockLost)
	})
}

// freeze blocks the leases of holds until thaw is called.
func freeze(all []*lease.Hold) (thaw func()) {
	var thaws []func()
	for _, h := range all {
		thaws = append(thaws, h.Lease().Freeze())
	}
	return func() {
		for _, thaw := range thaws {
			thaw()
		}
	}
}

// No call passes the check while holds are marked lost: its hold may be the
// next one.
func TestNobodyPassesWhileHoldsAreMarked(t *testing.T) {
	t.Parallel()
	e := newEngine(t, io.Discard, lease.Hooks{})
	holds := []*lease.Hold{e.take(t, lockspec.Plain, "a"), e.take(t, lockspec.Plain, "b"), e.take(t, lockspec.Plain, "c")}
	thaw := freeze(holds) // so that the marking takes until then
	e.suspend(time.Minute)
	var passed atomic.Int64
	check := func() error {
		e.CheckSuspended(time.Now())
		passed.Add(1)
		return nil
	}
	first, second := testkit.Async(t, check), testkit.Async(t, check)
	assert.Never(t, func() bool { return passed.Load() > 0 }, 100*time.Millisecond, time.Millisecond)
	thaw()
	require.NoError(t, testkit.ResultWithin(t, first, testkit.Patience))
	require.NoError(t, testkit.ResultWithin(t, second, testkit.Patience))
	for _, h := range holds {
		require.ErrorIs(t, h.Lease().State().Err, errs.ErrLockLost)
	}
}

// A hold's context ends though no call checks, also if the wall clock was set
// back by as long as the machine was suspended.
func TestSuspendIsNoticedByItself(t *testing.T) {
	cases := map[string]bool{"wall clock goes on": false, "wall clock set back": true}
	eachTimed(t, cases, func(t *testing.T, e *engine, setBack bool) {
		if setBack {
			clocks := e.clocks(suspend.Pause)
			clocks.Split = func(time.Time) (wall, awake time.Duration) { return 0, 0 }
			e.SetClocks(clocks)
		}
		h := e.take(t, lockspec.Plain, "k")
		e.suspend(time.Hour)
		before := time.Now()
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), errs.ErrLockLost)
		require.LessOrEqual(t, time.Since(before), suspend.Pause)
		require.ErrorIs(t, h.Unlock(), errs.ErrLockLost)
	})
}

// A grant, or another level, whose request was sent before a suspend is not
// valid. A lock that nobody holds is released.
func TestGrantOverASuspend(t *testing.T) {
	type request struct {
		kind   *lockspec.Kind
		before int // levels
		asks   func(driver.Request) bool
		err    error
	}
	eachTimed(t, map[string]request{
		"RedisLock": {lockspec.Plain, 0, func(r driver.Request) bool { return r.Cmd == "SET" }, lease.ErrLate},
		"ReentrantLock, level": {
			lockspec.Reentrant, 1, func(r driver.Request) bool { return isCall(r, script.ReentrantEnter) }, errs.ErrLockLost,
		},
		"RWLock, level": {
			lockspec.Write, 1, func(r driver.Request) bool { return isCall(r, script.RWEnter) }, errs.ErrLockLost,
		},
	}, func(t *testing.T, e *engine, tt request) {
		e.stopTicks() // only calls check
		for range tt.before {
			e.take(t, tt.kind, "k")
		}
		e.answer = func(r driver.Request) (time.Duration, error) {
			if tt.asks(r) {
				e.suspend(time.Minute)
				time.Sleep(time.Millisecond)
			}
			return 0, nil
		}
		_, err := e.try(t.Context(), tt.kind, "k")
		require.ErrorIs(t, err, tt.err)
		synctest.Wait()
		if tt.before == 0 {
			require.Equal(t, 1, e.calls(script.Release))
		}
	})
}

// A suspend that was over before the request was sent invalidates no grant,
// though nobody has noticed it before. One that comes later ends it
// immediately, for all members of a group: each client of a RedLock checks for
// itself, and the hold's Err asks all of them.
func TestGrantAfterASuspend(t *testing.T) {
	for _, kind := range []*lockspec.Kind{
		lockspec.Plain, lockspec.Reentrant, lockspec.Write, lockspec.Multi, lockspec.Quorum,
	} {
		t.Run((&lockspec.Spec{Kind: kind}).KindName(), func(t *testing.T) {
			timed(t, func(t *testing.T, e *engine) {
				e.stopTicks() // only calls check
				suspend, take := e.suspend, func() *lease.Hold { return e.take(t, kind, "k") }
				if kind == lockspec.Quorum {
					suspend, take = takeQuorum(t)
				}
				for range 2 {
					time.Sleep(time.Second)
					suspend(time.Hour)
					h := take()
					require.NoError(t, h.Err())
					require.NoError(t, h.Unlock())
				}
				h := take()
				suspend(time.Minute)
				require.ErrorIs(t, h.Err(), errs.ErrLockLost)
				require.ErrorIs(t, h.Unlock(), errs.ErrLockLost)
			})
		})
	}
}

// The loss of a hold names the suspended machine, for all keys of a MultiLock
// too.
func TestSuspendSaysSo(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	var suspended atomic.Int64
	asleep := func() time.Duration { return time.Duration(suspended.Load()) }
	split := func(time.Time) (wall, awake time.Duration) { return asleep(), 0 }
	locktest.Engine(c).SetClocks(suspend.Clocks{All: asleep, Split: split, Pause: suspend.Pause})
	one := locktest.Take(t, relock.NewRedisLock("one", c).Acquire)
	several := locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, c).Acquire)
	suspended.Add(int64(time.Minute))
	for _, h := range []relock.Hold{one, several} {
		require.ErrorIs(t, h.Err(), relock.ErrLockLost)
		require.ErrorContains(t, h.Err(), ": lock lost (machine was suspended)")
		require.ErrorContains(t, h.Unlock(t.Context()), ": lock lost (machine was suspended)")
	}
	require.EqualValues(t, 3, c.Stats().Losses)
}

package lease_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/internal/validity"
)

// Renewals come every third of the lease, counted from the sending, and not
// more often. They go on when the context that the hold was acquired with is
// cancelled. A fixed lease has none, and expires at its time. It looks once
// for a mark meanwhile, which extends nothing.
func TestRenewalRate(t *testing.T) {
	const length, margin, thirds = 2400 * time.Millisecond, 26 * time.Millisecond, 100 // 1 % and 2 ms
	renew := map[*lockspec.Kind]*script.Script{lockspec.Plain: script.Renew, lockspec.Reentrant: script.ReentrantRenew}
	eachTimed(t, ownKinds, func(t *testing.T, e *engine, kind *lockspec.Kind) {
		ctx, cancel := context.WithCancel(t.Context())
		h, err := e.try(ctx, kind, "k", watched(length))
		require.NoError(t, err)
		cancel()
		time.Sleep(thirds * length / 3)
		renewals := e.calls(renew[kind])
		require.GreaterOrEqual(t, renewals, thirds-1)
		require.LessOrEqual(t, renewals, thirds*10/9+1)
		require.NoError(t, h.Err())
		require.NoError(t, h.Unlock())

		h = e.take(t, kind, "fixed", fixed(length))
		start := time.Now()
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), time.Hour), errs.ErrLockLost)
		require.Equal(t, length-margin, time.Since(start))
		require.Equal(t, renewals+1, e.calls(renew[kind]))
		look := e.last(renew[kind])
		require.EqualValues(t, validity.CheckLength.Milliseconds(), look.List()[4])
	})
}

// Data lost at the server is found at the next renewal, which revives nothing.
func TestWatchdogFindsALoss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for what, lose := range map[string]func(t *testing.T, key string){
		"DEL by an operator": func(t *testing.T, key string) { s.Do(t, "DEL", key) },
		"taken by another kind": func(t *testing.T, key string) {
			s.Do(t, "DEL", key)
			s.Do(t, "LPUSH", key, "x")
		},
		"restart without data": func(t *testing.T, _ string) { s.Kill(t); s.Boot(t) },
	} {
		for name, newLock := range locktest.Kinds {
			t.Run(what+"/"+name, func(t *testing.T) {
				var log locktest.LogBuffer
				c := locktest.NewTestClient(t, s, log.Option())
				h := locktest.Take(t, newLock("k", c, relock.WithWatchdog(time.Hour)).Acquire)
				lose(t, locktest.KeyOf(c, "k"))
				leaseOf(h).RenewNow() // the one after it comes much later
				require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
				require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
				require.NotContains(t, []any{"hash", "string"}, s.Do(t, "TYPE", locktest.KeyOf(c, "k")), "not revived")
				// The context ends first, on the watchdog's goroutine, which
				// then logs.
				testkit.Eventually(t, testkit.Patience,
					func() bool { return strings.Contains(log.String(), "lock lost") }, "it is logged")
			})
		}
	}
}

// A server that refuses a renewal and then falls silent leaves no hold valid
// while the reason is being requested.
func TestWatchdogDoesNotWaitForTheReason(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, newLock := range locktest.Kinds {
		c, proxy := locktest.Behind(t, s, relock.WithCommandTimeout(4*testkit.Patience))
		h := locktest.Take(t, newLock("k", c, relock.WithWatchdog(time.Hour)).Acquire)
		asked := proxy.On(faults.Script(script.Notice.SHA), faults.Every, faults.DropRequest)
		s.Do(t, "DEL", locktest.KeyOf(c, "k"))
		leaseOf(h).RenewNow()
		_, ok := testkit.Await(asked, testkit.Patience)
		require.True(t, ok, "the renewal of %s is not refused", name)
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	}
}

// A renewal works on a server that has forgotten its scripts.
func TestRenewalAfterScriptFlush(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t)
	for name, newLock := range locktest.Kinds {
		h := locktest.Take(t, newLock(name, c, relock.WithWatchdog(time.Hour)).Acquire)
		for range 3 {
			locktest.Renew(t, h, testkit.Patience)
			s.Do(t, "SCRIPT", "FLUSH")
		}
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// Renewals that are executed but never answered do not extend the validity,
// although the key lives on. The hold is lost when its validity ends, and stays
// lost though the server answers again.
func TestUnansweredRenewalsEndInLoss(t *testing.T) {
	t.Parallel()
	const length = 3 * time.Second
	eachVariant(t, locktest.Renewers(), locktest.FaultPatience, map[string]variantTest{
		"": func(c *locktest.FaultBench, op locktest.Variant) {
			c.Proxy.On(op.Match, faults.Every, faults.DropAnswer)
			start, watch := time.Now(), testkit.NewStopwatch(c)
			lock := op.Lock(c.Client, length)
			for range op.Levels - 1 {
				require.NoError(c, lock.Lock(c.Context()))
			}
			h := locktest.Take(c, lock.Acquire)
			until := h.ValidUntil()
			again, at := c.Proxy.Await(op.Match, 2, length), c.Read()
			if now := h.ValidUntil(); !now.IsZero() {
				require.Equal(c, until, now, "an unanswered renewal extends the validity")
				require.True(c, !again || at.Earliest.After(until.Add(length/5)), "the first one was not executed")
			}
			require.ErrorIs(c, testkit.EndedWithin(c, h.Context(), testkit.Patience), relock.ErrLockLost)
			watch.Check(time.Since(until), locktest.CleanWithin)
			require.GreaterOrEqual(c, time.Since(start), length-lockspec.Drift(length))
			require.Positive(c, c.Proxy.Count(op.Match), "no renewal was sent")
			require.ErrorIs(c, h.Err(), relock.ErrLockLost)
			c.RequireLevels(0) // lost, so released
			takeNext(c, op)
			require.ErrorIs(c, h.Err(), relock.ErrLockLost)
			require.ErrorIs(c, h.Unlock(c.Context()), relock.ErrLockLost)
		},
	})
}

func takeMany(t testing.TB, c *relock.Client, n int) (all []relock.Hold) {
	for i := range n {
		all = append(all, locktest.Take(t, relock.NewRedisLock(fmt.Sprint("k", i), c).Acquire))
	}
	return all
}

// renewTogether makes the renewals of holds due. Each hold is renewed, or has
// ended, when done returns true.
func renewTogether(all []relock.Hold) (done func() bool) {
	untils := make([]time.Time, len(all))
	for i, h := range all {
		untils[i] = h.ValidUntil()
		leaseOf(h).RenewNow()
	}
	return func() bool {
		for i, h := range all {
			if h.Err() == nil && !h.ValidUntil().After(untils[i]) {
				return false
			}
		}
		return true
	}
}

// Renewals share a connection. A batch of them that is cut in the middle, or
// comes and is answered byte by byte, costs no hold.
func TestFaultsInABatchOfRenewals(t *testing.T) {
	t.Parallel()
	const length, holds = locktest.FaultLease, 20
	s := locktest.NewServerWithScripts(t)
	renewals := faults.Script(script.Renew.SHA)
	var cells []locktest.Subtest
	for _, f := range []struct {
		name   string
		n      int
		action faults.Action
	}{
		{"cut in the first answer", 1, faults.CutInAnswer},
		{"cut in an answer", holds / 2, faults.CutInAnswer},
		{"cut in a request", holds / 2, faults.CutInRequest},
		{"doubled", faults.Every, faults.Double},
		{"byte by byte", faults.Every, faults.SlowRequest(5 * time.Millisecond)},
		{"answers byte by byte", faults.Every, faults.SlowAnswer(5 * time.Millisecond)},
	} {
		cells = append(cells, locktest.Subtest{Name: f.name, Run: func(t testing.TB) {
			c := locktest.NewFaultBench(t, s, relock.WithWatchdog(length))
			done := c.Proxy.On(renewals, f.n, f.action)
			all := takeMany(t, c.Client, holds)
			renewed := renewTogether(all)
			c.Await(done, "not renewed")
			c.WaitFor(locktest.FaultPatience, renewed, "not renewed again")
			for _, h := range all {
				require.NoError(t, h.Err())
				until, left := h.ValidUntil(), locktest.PTTL(t, s, c.Client, h.Key())
				require.False(t, until.After(time.Now().Add(left+locktest.ClockGrain)), "valid for longer than the server has it")
				require.NoError(t, h.Unlock(t.Context()))
			}
		}})
	}
	locktest.RunTogether(t, cells)
}

// An outage that ends before valid until is survived: the renewal that it cost
// is repeated on another connection.
func TestWatchdogSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second
	s, c := locktest.OnOwn(t)
	h := locktest.Take(t, relock.NewRedisLock("k", c, relock.WithWatchdog(lease)).Acquire)
	s.Pause(t)
	before := h.ValidUntil()
	<-time.After(lease * 72 / 100) // the outage: the first renewal, sent after a third, has a third for its answer
	s.Resume(t)
	testkit.Eventually(t, lease, func() bool { return h.ValidUntil().After(before) }, "renewed after the outage")
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(t.Context()))
}

// A quick Lock and Unlock in a loop leaves nothing in the watchdog. After a
// level with a long lease it is as impatient again as the outer level needs.
func TestWatchdogForgets(t *testing.T) {
	timed(t, func(t *testing.T, e *engine) {
		awaitLimit := func(want time.Duration) {
			testkit.Eventually(t, time.Minute, func() bool { return e.limit() == want }, "the limit of a renewal")
		}
		for _, kind := range ownKinds {
			for range 200 {
				h := e.take(t, kind, "k", watched(9*time.Second), func(s *lockspec.Spec) { s.MaxHold = time.Hour })
				require.NoError(t, h.Unlock())
			}
			require.Zero(t, e.State().Leases)
			require.Zero(t, e.State().Owners)
			h := e.take(t, kind, "k", watched(90*time.Second))
			awaitLimit(30 * time.Second) // no other job is counted
			require.NoError(t, h.Unlock())
		}
		outer := e.take(t, lockspec.Reentrant, "k", watched(2400*time.Millisecond))
		inner := e.take(t, lockspec.Reentrant, "k", watched(4800*time.Millisecond))
		awaitLimit(1600 * time.Millisecond)
		require.NoError(t, inner.Unlock())
		awaitLimit(800 * time.Millisecond)
		require.NoError(t, outer.Unlock())
	})
}

// All holds of a client are renewed over one connection.
func TestManyHoldsOneConnection(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t)
	all := takeMany(t, c, 500)
	testkit.Eventually(t, testkit.Patience, renewTogether(all), "renewed")
	require.LessOrEqual(t, s.Info(t, "clients", "connected_clients"), int64(1+1+1), "pool, watchdog, and this one")
	for _, h := range all {
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// late delays the answers to a script.
func late(s *script.Script, by time.Duration) func(driver.Request) (time.Duration, error) {
	return func(r driver.Request) (time.Duration, error) {
		if isCall(r, s) {
			return by, nil
		}
		return 0, nil
	}
}

// A server that answers too slowly for a short lease is not too slow for a long
// one of the same client.
func TestShortLeaseBesideALongOne(t *testing.T) {
	timed(t, func(t *testing.T, e *engine) {
		e.answer = late(script.Renew, 3*driver.MinLimit/2)
		long := e.take(t, lockspec.Plain, "long", watched(9*time.Second))
		for lost := range 500 {
			h := e.take(t, lockspec.Plain, "short", watched(2*driver.MinLimit))
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), time.Second), errs.ErrLockLost, lost)
			require.ErrorIs(t, h.Unlock(), errs.ErrLockLost)
		}
		require.NoError(t, long.Err())
	})
}

// A long lease whose renewal is answered too slowly for a short one gets more
// time in its next try, though the short one was answered immediately
// meanwhile, again and again.
func TestShortLeaseBesideASlowLongOne(t *testing.T) {
	const short, long = 3 * time.Second, 10 * time.Second // an answer may take 1 s and 3.3 s
	testkit.Bubble(t, func(t *testing.T) {
		tried := make(chan error, 100)
		e := newEngine(t, io.Discard, lease.Hooks{RenewDone: func(_ context.Context, r holds.End) {
			if r.Key == "long" {
				tried <- r.Err
			}
		}})
		e.answer = late(script.Renew, short/2)
		h := e.take(t, lockspec.Plain, "long", watched(long))
		other := e.take(t, lockspec.Reentrant, "short", watched(short)) // renewed by another script
		require.ErrorIs(t, testkit.ResultWithin(t, tried, long), driver.ErrTimeout)
		require.NoError(t, testkit.ResultWithin(t, tried, long))
		require.NoError(t, h.Err())
		require.NoError(t, other.Err())
	})
}

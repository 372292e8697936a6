package lease_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// requests are what a kind of lock sends.
type requests struct{ acquire, again, renew, release faults.Match }

var requestsOf = map[string]requests{
	"RedisLock": {
		faults.Command("SET"), faults.Script(script.Acquire.SHA), faults.Script(script.Renew.SHA),
		faults.Script(script.Release.SHA),
	},
	"ReentrantLock": {
		faults.Script(script.ReentrantAcquire.SHA), faults.Script(script.ReentrantEnter.SHA),
		faults.Script(script.ReentrantRenew.SHA), faults.Script(script.ReentrantRelease.SHA),
	},
}

const loading = "LOADING Redis is loading the dataset in memory"

type kindTest func(c *locktest.FaultBench, kind string, r requests)

// eachKind runs tests with each kind of lock, all of them together. Tests that
// require a release within a second have no other tests beside them.
func eachKind(t *testing.T, tests map[string]kindTest, opts ...relock.ClientOption) {
	t.Helper()
	s := locktest.NewServerWithScripts(t)
	opts = append([]relock.ClientOption{relock.WithCommandTimeout(locktest.DefaultCommandTimeout)}, opts...)
	var cells []locktest.Subtest
	for name, run := range tests {
		for kind, r := range requestsOf {
			cells = append(cells, locktest.Subtest{Name: path.Join(name, kind), Run: func(t testing.TB) {
				run(locktest.NewFaultBench(t, s, opts...), kind, r)
			}})
		}
	}
	locktest.RunTogether(t, cells)
}

type variantTest func(c *locktest.FaultBench, op locktest.Variant)

// eachVariant runs tests with each of the operations, all of them together.
func eachVariant(t *testing.T, ops []locktest.Variant, timeout time.Duration, tests map[string]variantTest) {
	t.Helper()
	s := locktest.NewServerWithScripts(t)
	var cells []locktest.Subtest
	for name, run := range tests {
		for _, op := range ops {
			cells = append(cells, locktest.Subtest{Name: path.Join(op.Name, op.Lease, name), Run: func(t testing.TB) {
				c := locktest.NewFaultBench(t, s, relock.WithCommandTimeout(timeout))
				if op.Cut {
					c.Proxy.On(faults.Command("SET"), 1, faults.CutBefore)
				}
				run(c, op)
			}})
		}
	}
	locktest.RunTogether(t, cells)
}

// takeNext acquires the lock for another client, for as long as a test waits.
func takeNext(c *locktest.FaultBench, op locktest.Variant) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), testkit.Patience)
	defer cancel()
	require.NoError(c, op.Lock(c.Other, locktest.FaultLease, relock.WithBlock()).Lock(ctx))
}

// A caller that leaves while its request is under way leaves nothing behind:
// another gets the lock within a second, not after the lease.
func TestAbandonedAcquireIsFreedWithinASecond(t *testing.T) {
	tests := map[string]variantTest{}
	for name, f := range map[string]struct {
		action   faults.Action
		release  faults.Action // what becomes of the first release
		messages int           // that are lost or late, each for at most a second
	}{
		"answer dropped":                        {faults.DropAnswer, faults.Delay(0), 1},
		"answer dropped, release dropped":       {faults.DropAnswer, faults.DropRequest, 2},
		"answer dropped, release not answered":  {faults.DropAnswer, faults.DropAnswer, 2},
		"answer dropped, release refused":       {faults.DropAnswer, faults.ErrorLine("LOADING soon"), 1},
		"answer comes later":                    {faults.Delay(2 * locktest.AnswerLimit), faults.Delay(0), 1},
		"answer comes later, release never got": {faults.Delay(2 * locktest.AnswerLimit), faults.CutBefore, 1},
	} {
		tests[name] = func(c *locktest.FaultBench, op locktest.Variant) {
			c.Proxy.On(op.Match, 1, f.action)
			c.Proxy.On(op.Release, 1, f.release)
			ctx, cancel := context.WithCancelCause(c.Context())
			defer cancel(nil)
			result := testkit.Async(c, func() error { return op.Lock(c.Client, 30*time.Second).Lock(ctx) })
			c.WaitFor(locktest.FaultPatience, func() bool { return c.Levels() == 1 }, "not executed")
			why := errors.New("why")
			cancel(why)
			watch := testkit.NewStopwatch(c)
			locktest.RequireIs(c, testkit.ResultWithin(c, result, testkit.Patience), context.Canceled, why)
			watch.Within(locktest.CleanWithin / 2)
			takeNext(c, op)
			watch.Within(time.Duration(f.messages) * locktest.CleanWithin)
		}
	}
	eachVariant(t, locktest.Acquirers(), testkit.Patience, tests)
}

// A proxy may answer with its own line before the server executes the
// request. The release is repeated, as after no answer at all.
func TestErrorLineOfAProxyLeavesNoOrphan(t *testing.T) {
	eachVariant(t, locktest.Acquirers(), testkit.Patience, map[string]variantTest{
		"": func(c *locktest.FaultBench, op locktest.Variant) {
			c.Proxy.On(op.Match, 1, faults.HoldThenError("upstream failure"))
			released := c.Proxy.On(op.Release, 1, faults.Delay(0))
			require.ErrorContains(c, op.Lock(c.Client, 30*time.Second).Lock(c.Context()), "upstream failure")
			_, ok := testkit.Await(released, testkit.Patience)
			require.True(c, ok, "no release")
			c.Proxy.Release()
			watch := testkit.NewStopwatch(c)
			takeNext(c, op)
			watch.Within(locktest.CleanWithin)
		},
	})
}

// A release that overtakes the acquire which it is for, and is answered after
// it, is not the last one.
func TestReleaseOvertakesTheAcquire(t *testing.T) {
	eachVariant(t, locktest.Acquirers(), testkit.Patience, map[string]variantTest{
		"": func(c *locktest.FaultBench, op locktest.Variant) {
			executed := c.Proxy.On(op.Match, 1, faults.DelayRequest(350*time.Millisecond))
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			result := testkit.Async(c, func() error { return op.Lock(c.Client, 30*time.Second).Lock(ctx) })
			require.True(c, c.Proxy.Await(op.Match, 1, testkit.Patience))
			overtakes := c.Proxy.On(op.Release, 1, faults.Delay(600*time.Millisecond))
			cancel()
			require.ErrorIs(c, testkit.ResultWithin(c, result, testkit.Patience), context.Canceled)
			c.Await(executed, "not executed")
			c.RequireLevels(0)
			c.Await(overtakes, "no release")
			c.RequireLevels(0)
		},
	})
}

// A request that comes after its caller has left, and after the first release,
// holds the key for less than a second: right after the call, and as late as
// one lease after it.
func TestLateAcquireIsFreedWithinASecond(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	tests := map[string]variantTest{}
	for _, late := range []time.Duration{0, lease / 2, lease - lease/5, lease - lease/20} {
		tests[fmt.Sprint(late)] = func(c *locktest.FaultBench, op locktest.Variant) {
			c.Proxy.On(op.Match, 1, faults.HoldOnly)
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			begun := time.Now() // no later than the sending, from which the releases count
			result := testkit.Async(c, func() error { return op.Lock(c.Client, lease).Lock(ctx) })
			require.True(c, c.Proxy.Await(op.Match, 1, testkit.Patience))
			cancel()
			// on a busy machine it may have waited for too long before
			require.Error(c, testkit.ResultWithin(c, result, testkit.Patience))
			require.True(c, c.Proxy.Await(op.Release, 1, testkit.Patience), "no release")
			locktest.RequireFree(c, c.Server, c.Client, locktest.FaultKey)

			time.Sleep(late - time.Since(begun)) // the lateness is what is tested
			answers := c.Proxy.Release()
			inTime := time.Since(begun) < lease // else nothing is promised
			require.Len(c, answers, 1)
			require.Contains(c, []string{"+OK", ":1"}, answers[0], "the late request did not take the key")
			if inTime {
				c.RequireLevels(0)
			}
		}
	}
	eachVariant(t, locktest.Acquirers(), lease, tests)
}

// A copy of an acquire that was answered, delivered after the release, is the
// one copy that is not harmless: no request is indeterminate, so nothing is
// released after it. It takes a free key until its lease ends. TCP delivers no
// such copies; only something between client and server that repeats requests
// could. Until the lease ends everybody is refused, the owner of the former
// hold too, and no client has a hold.
func TestLateCopyOfAGrantedAcquire(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	eachVariant(t, locktest.Acquirers(), locktest.FaultPatience, map[string]variantTest{
		"": func(c *locktest.FaultBench, op locktest.Variant) {
			c.Proxy.On(op.Match, 1, faults.Hold)
			lock := op.Lock(c.Client, lease)
			require.NoError(c, lock.Lock(c.Context()))
			require.NoError(c, lock.Unlock(c.Context()))
			locktest.RequireFree(c, c.Server, c.Client, locktest.FaultKey)

			delivered, watch := time.Now(), testkit.NewStopwatch(c)
			answers := c.Proxy.Release()
			require.Len(c, answers, 1)
			require.Contains(c, []string{"+OK", ":1"}, answers[0], "the copy did not take the key")
			taken, levels := c.Read(), c.Levels()
			require.True(c, levels == 1 || time.Since(delivered) >= lease, "%d levels", levels)
			require.False(c, taken.Earliest.After(time.Now().Add(lease)), "for longer than its lease")

			for _, l := range []locktest.AnyLock{lock, op.Lock(c.Client, lease), op.Lock(c.Other, lease)} {
				if err := l.TryLock(c.Context()); time.Since(delivered) < lease {
					require.ErrorIs(c, err, relock.ErrLockAcquiredByOthers)
				}
			}
			require.Empty(c, locktest.ValidLeases(c.Client))
			require.ErrorIs(c, lock.Unlock(c.Context()), relock.ErrNotHeld)
			if after := c.Read(); time.Since(delivered) < lease {
				c.RequireUntouched(taken, after)
			}
			next := op.Lock(c.Client, locktest.FaultLease, relock.WithBlock())
			require.NoError(c, next.Lock(c.Context()))
			require.GreaterOrEqual(c, time.Since(delivered), lease-locktest.ClockGrain,
				"exclusion lasted until the end of its lease")
			watch.Within(lease + locktest.CleanWithin)
			require.NoError(c, next.Unlock(c.Context()))
		},
	})
}

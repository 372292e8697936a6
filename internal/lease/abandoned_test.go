package lease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// A caller that leaves while its request is under way leaves nothing behind: another gets the lock within a second, not after the lease.
func TestAbandonedAcquireIsFreedWithinASecond(t *testing.T) {
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for _, op := range locktest.Acquirers() {
		for _, f := range []struct {
			name     string
			action   faults.Action
			releases faults.Action // what becomes of the first clean-up
			messages int           // that are lost or late, each for at most a second
		}{
			{"answer dropped", faults.DropAnswer, faults.Delay(0), 1},
			{"answer dropped, clean-up dropped", faults.DropAnswer, faults.DropRequest, 2},
			{"answer dropped, clean-up not answered", faults.DropAnswer, faults.DropAnswer, 2},
			{"answer dropped, clean-up refused", faults.DropAnswer, faults.ErrorLine("LOADING soon"), 1},
			{"answer comes later", faults.Delay(2 * locktest.AnswerLimit), faults.Delay(0), 1},
			{"answer comes later, clean-up cut", faults.Delay(2 * locktest.AnswerLimit), faults.CutBefore, 1},
		} {
			cells = append(cells, locktest.CellRun{Name: op.FullName() + "/" + f.name, Run: func(t testing.TB) {
				c := locktest.NewCell(t, s, relock.WithCommandTimeout(locktest.DefaultCommandTimeout))
				op.LoseSET(c)
				c.Proxy.On(op.Match, 1, f.action)
				c.Proxy.On(op.GiveBack(), 1, f.releases)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				result := testkit.Async(t, func() error { return op.Lock(c.Client, 30*time.Second).Lock(ctx) })
				c.WaitFor(locktest.CellPatience, func() bool { return c.Levels() == 1 }, "not executed")
				why := errors.New("why")
				cancel(why)
				start := time.Now()
				err := testkit.ResultWithin(t, result, locktest.CleanWithin/2)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, why)

				next, stop := context.WithTimeout(t.Context(), locktest.CellPatience)
				defer stop()
				require.NoError(t, op.Lock(c.Other, locktest.CellLease, relock.WithBlock()).Lock(next))
				require.Less(t, time.Since(start), time.Duration(f.messages)*locktest.CleanWithin)
			}})
		}
	}
	locktest.Together(t, cells)
}

// An acquire that was executed and not answered in time is freed within a second, though nobody has left and the lease is a minute.
func TestTimedOutAcquireIsFreedWithinASecond(t *testing.T) {
	const timeout, late = 300 * time.Millisecond, 1500 * time.Millisecond
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for _, op := range locktest.Acquirers() {
		cells = append(cells, locktest.CellRun{Name: op.FullName(), Run: func(t testing.TB) {
			c := locktest.NewCell(t, s, relock.WithCommandTimeout(timeout))
			op.LoseSET(c)
			c.Proxy.On(op.Match, 1, faults.Delay(late))
			start := time.Now()
			err := op.Lock(c.Client, time.Minute).Lock(t.Context())
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.True(t, relock.IsRetryableErr(err))
			require.GreaterOrEqual(t, time.Since(start), timeout)

			ctx, cancel := context.WithTimeout(t.Context(), locktest.CellPatience)
			defer cancel()
			over := time.Now()
			next := op.Lock(c.Other, time.Minute, relock.WithBlock())
			require.NoError(t, next.Lock(ctx))
			require.Less(t, time.Since(over), locktest.CleanWithin)
			require.NoError(t, next.Unlock(ctx))
		}})
	}
	locktest.Together(t, cells)
}

// A clean-up that overtakes the request which it is for, and is answered after it, is not the last one.
func TestCleanUpOvertakesTheRequest(t *testing.T) {
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for _, op := range locktest.Acquirers() {
		cells = append(cells, locktest.CellRun{Name: op.FullName(), Run: func(t testing.TB) {
			c := locktest.NewCell(t, s, relock.WithCommandTimeout(locktest.DefaultCommandTimeout))
			op.LoseSET(c)
			executed := c.Proxy.On(op.Match, 1, faults.DelayRequest(350*time.Millisecond))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := testkit.Async(t, func() error { return op.Lock(c.Client, 30*time.Second).Lock(ctx) })
			require.True(t, c.Proxy.Await(op.Match, 1, locktest.CellPatience))
			overtakes := c.Proxy.On(op.GiveBack(), 1, faults.Delay(600*time.Millisecond))
			cancel()
			require.ErrorIs(t, testkit.ResultWithin(t, result, locktest.CellPatience), context.Canceled)
			c.Await(executed, "not executed")
			c.RequireLevels(0)
			c.Await(overtakes, "no clean-up")
			c.RequireLevels(0)
		}})
	}
	locktest.Together(t, cells)
}

// A request that comes after its caller has left, and after the first clean-up, holds the key for less than a second: right after
// the call, and as late as one lease after it.
func TestLateAcquireIsFreedWithinASecond(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for _, op := range locktest.Acquirers() {
		for _, late := range []time.Duration{0, lease / 2, lease - lease/5, lease - lease/20} {
			cells = append(cells, locktest.CellRun{Name: fmt.Sprintf("%s/%v", op.FullName(), late), Run: func(t testing.TB) {
				c := locktest.NewCell(t, s, relock.WithCommandTimeout(lease))
				op.LoseSET(c)
				c.Proxy.On(op.Match, 1, faults.HoldOnly)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				begun := time.Now() // no later than the sending, from which the clean-up counts
				result := testkit.Async(t, func() error { return op.Lock(c.Client, lease).Lock(ctx) })
				require.True(t, c.Proxy.Await(op.Match, 1, locktest.CellPatience))
				cancel()
				require.Error(t, testkit.ResultWithin(t, result, locktest.CellPatience)) // on a busy machine it may have waited for too long before
				require.True(t, c.Proxy.Await(op.GiveBack(), 1, locktest.CellPatience), "no clean-up")
				locktest.RequireFree(t, s, c.Client, locktest.CellKey)

				time.Sleep(late - time.Since(begun)) // the lateness is what is tested
				answers := c.Proxy.Release()
				inTime := time.Since(begun) < lease // else nothing is promised
				require.Len(t, answers, 1)
				require.Contains(t, []string{"+OK", ":1"}, answers[0], "the late request did not take the key")
				if inTime {
					c.RequireLevels(0)
				}
			}})
		}
	}
	locktest.Together(t, cells)
}

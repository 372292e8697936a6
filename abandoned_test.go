package relock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/testkit"
)

// A caller that leaves while its request is under way leaves nothing behind: another gets the lock within a second, not after the lease.
func TestAbandonedAcquireIsFreedWithinASecond(t *testing.T) {
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range acquirers() {
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
			{"answer comes later", faults.Delay(2 * answerLimit), faults.Delay(0), 1},
			{"answer comes later, clean-up cut", faults.Delay(2 * answerLimit), faults.CutBefore, 1},
		} {
			cells = append(cells, cellRun{op.fullName() + "/" + f.name, func(t testing.TB) {
				c := newCell(t, s, WithCommandTimeout(defaultCommandTimeout))
				op.loseSET(c)
				c.proxy.On(op.match, 1, f.action)
				c.proxy.On(op.giveBack(), 1, f.releases)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				result := testkit.Async(t, func() error { return op.lock(c.client, 30*time.Second).Lock(ctx) })
				c.waitFor(cellPatience, func() bool { return c.levels() == 1 }, "not executed")
				why := errors.New("why")
				cancel(why)
				start := time.Now()
				err := testkit.ResultWithin(t, result, cleanWithin/2)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, why)

				next, stop := context.WithTimeout(t.Context(), cellPatience)
				defer stop()
				require.NoError(t, op.lock(c.other, cellLease, WithBlock()).Lock(next))
				require.Less(t, time.Since(start), time.Duration(f.messages)*cleanWithin)
			}})
		}
	}
	together(t, cells)
}

// An acquire that was executed and not answered in time is freed within a second, though nobody has left and the lease is a minute.
func TestTimedOutAcquireIsFreedWithinASecond(t *testing.T) {
	const timeout, late = 300 * time.Millisecond, 1500 * time.Millisecond
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range acquirers() {
		cells = append(cells, cellRun{op.fullName(), func(t testing.TB) {
			c := newCell(t, s, WithCommandTimeout(timeout))
			op.loseSET(c)
			c.proxy.On(op.match, 1, faults.Delay(late))
			start := time.Now()
			err := op.lock(c.client, time.Minute).Lock(t.Context())
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.True(t, IsRetryableErr(err))
			require.GreaterOrEqual(t, time.Since(start), timeout)

			ctx, cancel := context.WithTimeout(t.Context(), cellPatience)
			defer cancel()
			over := time.Now()
			next := op.lock(c.other, time.Minute, WithBlock())
			require.NoError(t, next.Lock(ctx))
			require.Less(t, time.Since(over), cleanWithin)
			require.NoError(t, next.Unlock(ctx))
		}})
	}
	together(t, cells)
}

// A clean-up that overtakes the request which it is for, and is answered after it, is not the last one.
func TestCleanUpOvertakesTheRequest(t *testing.T) {
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range acquirers() {
		cells = append(cells, cellRun{op.fullName(), func(t testing.TB) {
			c := newCell(t, s, WithCommandTimeout(defaultCommandTimeout))
			op.loseSET(c)
			executed := c.proxy.On(op.match, 1, faults.DelayRequest(350*time.Millisecond))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := testkit.Async(t, func() error { return op.lock(c.client, 30*time.Second).Lock(ctx) })
			require.True(t, c.proxy.Await(op.match, 1, cellPatience))
			overtakes := c.proxy.On(op.giveBack(), 1, faults.Delay(600*time.Millisecond))
			cancel()
			require.ErrorIs(t, testkit.ResultWithin(t, result, cellPatience), context.Canceled)
			c.await(executed, "not executed")
			c.requireLevels(0)
			c.await(overtakes, "no clean-up")
			c.requireLevels(0)
		}})
	}
	together(t, cells)
}

// A request that comes after its caller has left, and after the first clean-up, holds the key for less than a second: right after
// the call, and as late as one lease after it.
func TestLateAcquireIsFreedWithinASecond(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range acquirers() {
		for _, late := range []time.Duration{0, lease / 2, lease - lease/5, lease - lease/20} {
			cells = append(cells, cellRun{fmt.Sprintf("%s/%v", op.fullName(), late), func(t testing.TB) {
				c := newCell(t, s, WithCommandTimeout(lease))
				op.loseSET(c)
				c.proxy.On(op.match, 1, faults.HoldOnly)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				begun := time.Now() // no later than the sending, from which the clean-up counts
				result := testkit.Async(t, func() error { return op.lock(c.client, lease).Lock(ctx) })
				require.True(t, c.proxy.Await(op.match, 1, cellPatience))
				cancel()
				require.Error(t, testkit.ResultWithin(t, result, cellPatience)) // on a busy machine it may have waited for too long before
				require.True(t, c.proxy.Await(op.giveBack(), 1, cellPatience), "no clean-up")
				requireFree(t, s, c.client, cellKey)

				time.Sleep(late - time.Since(begun)) // the lateness is what is tested
				answers := c.proxy.Release()
				inTime := time.Since(begun) < lease // else nothing is promised
				require.Len(t, answers, 1)
				require.Contains(t, []string{"+OK", ":1"}, answers[0], "the late request did not take the key")
				if inTime {
					c.requireLevels(0)
				}
			}})
		}
	}
	together(t, cells)
}

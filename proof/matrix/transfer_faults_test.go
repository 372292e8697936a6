package matrix_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// transferFaults are those of a waiter's requests, and some that are over while the one who unlocks still waits.
var transferFaults = append([]queueFault{
	{"request a little late", faults.DelayRequest(60 * time.Millisecond)},
	{"answer a little late", faults.Delay(60 * time.Millisecond)},
	{"out of memory", faults.ErrorLine("OOM command not allowed when used memory > 'maxmemory'.")},
	{"executed, out of memory", faults.ExecuteThenError("OOM command not allowed when used memory > 'maxmemory'.")},
}, queueFaults...)

// transferCell has a client behind a proxy that holds the lock, with a call that sits, and a call of another client that waits.
type transferCell struct {
	*cellWithWaiter
	hold       relock.Hold
	sat, other *locktest.Waiting
}

func newTransferCell(ctx context.Context, c *cellWithWaiter) *transferCell {
	q := c.queue
	h := q.Take(c.Client)
	sat := q.Wait(ctx, c.Client)
	testkit.Eventually(c, testkit.Patience, func() bool { return q.RestsInRedis(c.Client) }, "it waits in Redis")
	other := q.WaitNext(context.Background(), 1, c.Other)
	locktest.Fresh(h)
	c.met = c.Proxy.On(c.match, 1, c.fault.action)
	return &transferCell{c, h, sat, other}
}

// After each fault in the request that transfers a lock, whoever unlocks is told in time, the call that it was for and that
// of the other client get the lock one after the other, and nothing that comes late touches either. See observe for what
// holds all the time.
func TestOneFaultInEachTransfer(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for name, run := range map[string]func(*transferCell, context.CancelFunc){
		"waits": (*transferCell).waits, "gives up": (*transferCell).givesUp,
	} {
		for _, f := range transferFaults {
			cells = append(cells, locktest.CellRun{Name: name + "/" + f.name, Run: func(t testing.TB) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				run(newTransferCell(ctx, newCellWithWaiter(t, s, locktest.ReentrantUnfair, f, locktest.TransferOnly)), cancel)
			}})
		}
	}
	locktest.Together(t, cells)
}

// unlockInTime unlocks, and sees that it does not take longer than it may.
func (c *transferCell) unlockInTime() {
	start := time.Now()
	if err := c.hold.Unlock(context.Background()); err != nil {
		require.ErrorIs(c, err, relock.ErrUnconfirmed) // on a busy machine
	}
	require.Less(c, time.Since(start), locktest.WaiterLimit+locktest.CellPatience/2)
	require.ErrorIs(c, c.hold.Err(), relock.ErrNotHeld)
	c.Await(c.met, "the fault did not happen")
}

func (c *transferCell) waits(context.CancelFunc) {
	c.unlockInTime()
	first, second := c.sat, c.other
	select {
	case <-c.sat.Ended:
	case <-c.other.Ended:
		first, second = c.other, c.sat
	case <-time.After(locktest.CellLease * 4 / 5):
		require.FailNow(c, "nobody gets the lock", "%s", c.queue.Snapshot())
	}
	c.requireUnharmed(first, second)
	c.unlock(second.Granted())
	c.finish(nil)
}

func (c *transferCell) givesUp(cancel context.CancelFunc) {
	unlocked := testkit.Async(c, func() error {
		c.unlockInTime()
		return nil
	})
	c.Proxy.Await(c.match, 1, testkit.Patience)
	time.Sleep(rand.N(3 * time.Millisecond))
	start := time.Now()
	due := locktest.SetAlarm(c, start.Add(locktest.AnswerLimit/4))
	cancel()
	if err := c.sat.End(); err == nil {
		c.unlock(c.sat.Hold) // it was given the lock first
	} else {
		require.True(c, errors.Is(err, context.Canceled), err)
		require.Less(c, c.sat.At.Sub(due.Ring()), locktest.AnswerLimit/4, "it waits for the transfer, which may take half of the command timeout")
	}
	require.NoError(c, testkit.ResultWithin(c, unlocked, testkit.Patience))
	c.other.Granted()
	require.Less(c, c.other.At.Sub(start), locktest.CellLease*4/5, "it had to wait for the end of a lease")
	c.requireUnharmed(c.other, nil)
	c.finish(nil)
}

// requireUnharmed sees that the hold is untouched by what was held back, and unlocks it.
func (c *transferCell) requireUnharmed(w, waits *locktest.Waiting) {
	h := w.Granted()
	before := c.Read()
	c.release()
	time.Sleep(30 * time.Millisecond) // for what the retrier does
	require.NoError(c, h.Err())
	after := c.Read()
	if locktest.LeaseOf(h).State().Passes == 0 {
		c.RequireUntouched(before, after)
	}
	require.Equal(c, before.Content, after.Content)
	require.False(c, after.Latest.Before(before.Earliest), "shortened") // a late copy of its own transfer may lengthen it
	require.Equal(c, 1, c.Levels())
	require.True(c, waits == nil || !waits.IsOver(), "granted while another one has it")
	c.unlock(h)
	c.release()
}

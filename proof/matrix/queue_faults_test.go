package matrix_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// queueFault is what happens to a request of a waiter.
type queueFault struct {
	name   string
	action faults.Action
}

var queueFaults = []queueFault{
	{"request dropped", faults.DropRequest},
	{"answer dropped", faults.DropAnswer},
	{"request delayed", faults.DelayRequest(300 * time.Millisecond)},
	{"answer delayed", faults.Delay(300 * time.Millisecond)},
	{"request too late", faults.DelayRequest(1300 * time.Millisecond)},
	{"answer too late", faults.Delay(1300 * time.Millisecond)},
	{"cut before", faults.CutBefore},
	{"cut after", faults.CutAfter},
	{"cut in the answer", faults.CutInAnswer},
	{"doubled", faults.Double},
	{"error line", faults.ErrorLine("LOADING Redis is loading the dataset in memory")},
	{"executed, error line", faults.ExecuteThenError("LOADING Redis is loading the dataset in memory")},
	{"late", faults.HoldOnly},
	{"cut and late", faults.HoldAndCut},
	{"late copy", faults.Hold},
}

// cellWithWaiter is a cell whose client waits for the lock behind a proxy, and meets one fault.
type cellWithWaiter struct {
	*locktest.Cell
	queue   *locktest.QueueBench
	fault   queueFault
	match   faults.Match
	met     <-chan struct{}
	count   *atomic.Int64 // of the cells whose fault has happened
	scripts *lockspec.Queue
}

// After each fault in each request of a waiter, the waiter gets the lock, or leaves nothing behind, and those behind it get the lock
// afterwards. Nobody's hold is touched by what comes late. See observe for what holds all the time.
func TestOneFaultInEachRequestOfAWaiter(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	var met atomic.Int64
	var cells []locktest.CellRun
	for name, run := range map[string]struct {
		script *script.Script
		run    func(*cellWithWaiter)
	}{
		"enqueue":               {script.Enqueue, (*cellWithWaiter).isGranted},
		"claim":                 {script.Claim, (*cellWithWaiter).isGranted},
		"poll":                  {script.Poll, (*cellWithWaiter).isGranted},
		"cancel":                {script.Cancel, (*cellWithWaiter).givesUp},
		"enqueue, and gives up": {script.Enqueue, (*cellWithWaiter).givesUp},
		"claim, and gives up":   {script.Claim, (*cellWithWaiter).givesUp},
	} {
		for _, f := range queueFaults {
			for _, m := range locktest.QueueModes() {
				cells = append(cells, locktest.CellRun{Name: name + "/" + f.name + "/" + m.Title(), Run: func(t testing.TB) {
					c := newCellWithWaiter(t, s, m, f, faults.Script(run.script.SHA))
					c.count = &met
					run.run(c)
				}})
			}
		}
	}
	cells = locktest.Drawn(t, cells)
	locktest.Together(t, cells)
	t.Logf("%d of %d faults", met.Load(), len(cells))
	require.Greater(t, int(met.Load()), len(cells)*3/4, "faults that happened")
}

func newCellWithWaiter(t testing.TB, s *redistest.Server, m locktest.QueueMode, f queueFault, match faults.Match) *cellWithWaiter {
	c := &cellWithWaiter{Cell: locktest.NewCell(t, s, relock.WithCommandTimeout(locktest.WaiterLimit)), fault: f, match: match, scripts: lockspec.MutexQueue}
	c.queue = &locktest.QueueBench{TB: t, QueueMode: m, Server: s, Clients: []*relock.Client{c.Client, c.Other}, Key: locktest.KeyOf(c.Client, locktest.QueueKey)}
	return c
}

// begin has the other client hold the lock, and the client behind the proxy wait for it.
func (c *cellWithWaiter) begin(ctx context.Context) (h relock.Hold, w *locktest.Waiting) {
	c.Helper()
	q := c.queue
	h = q.Take(c.Other)
	c.met = c.Proxy.On(c.match, 1, c.fault.action)
	w = q.Wait(ctx, c.Client, relock.WithWatchdog(locktest.CellLease))
	return h, w
}

// isGranted: the waiter gets the lock, and the one behind it afterwards.
func (c *cellWithWaiter) isGranted() {
	q := c.queue
	h, w := c.begin(context.Background())
	q.AwaitQueued(1)
	behind := q.WaitNext(context.Background(), 1, c.Other)
	c.release()
	require.NoError(c, h.Err())
	q.Unlock(h)
	start := time.Now()
	select {
	case <-w.Ended:
	case <-behind.Ended: // on a busy machine, or after a long silence, the first one may miss its turn
		q.Unlock(behind.Granted())
		behind = nil
	}
	next := w.Granted()
	require.Less(c, w.At.Sub(start), locktest.CellLease*4/5, "it had to wait for the end of a lease")
	c.note()
	c.release()
	require.NoError(c, next.Err())
	require.True(c, behind == nil || !behind.IsOver(), "granted while another one has it")
	c.unlock(next)
	c.finish(behind)
}

// givesUp: the waiter's context ends, before or after the lock could be had. What comes late does not touch the hold of the one behind.
func (c *cellWithWaiter) givesUp() {
	q := c.queue
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h, w := c.begin(ctx)
	claims := c.match([]string{"EVALSHA", c.scripts.Claim.SHA})
	if claims {
		q.AwaitQueued(1)
		q.Unlock(h)
	}
	if !c.match([]string{"EVALSHA", c.scripts.Cancel.SHA}) {
		c.Proxy.Await(c.match, 1, testkit.Patience)
	} else {
		q.AwaitQueued(1)
	}
	behind := q.Wait(context.Background(), c.Other)
	cancel()
	if w.End() == nil {
		c.unlock(w.Hold) // it was granted first
	}
	if !claims {
		q.Unlock(h)
	}
	last := behind.Granted()
	before := c.Read()
	c.note()
	c.release()
	time.Sleep(20 * time.Millisecond)
	require.NoError(c, last.Err())
	c.RequireUntouched(before, c.Read())
	q.Unlock(last)
	c.finish(nil)
}

// unlock is for a hold from behind the proxy; on a busy machine the answer may come too late.
func (c *cellWithWaiter) unlock(h relock.Hold) {
	c.Helper()
	err := h.Unlock(context.Background())
	if err != nil {
		require.ErrorIs(c, err, relock.ErrUnconfirmed)
	}
}

// release delivers what was held back, when it was.
func (c *cellWithWaiter) release() { c.Proxy.Release() }

// note counts whether the fault has happened: on a busy machine a waiter may get the lock without this request.
func (c *cellWithWaiter) note() {
	select {
	case <-c.met:
		c.count.Add(1)
	case <-time.After(4 * locktest.AnswerLimit):
	}
}

// finish has the one behind take and give the lock, and sees that nothing is left.
func (c *cellWithWaiter) finish(behind *locktest.Waiting) {
	if behind != nil {
		c.queue.Unlock(behind.Granted())
	}
	c.Proxy.Release()
	c.queue.RequireNothingLeft()
	require.Zero(c, locktest.Engine(c.Client).State().Leases)
	require.Zero(c, locktest.Engine(c.Client).State().Owners)
	state := locktest.Engine(c.Client).Queue.State()
	require.Empty(c, state.Lines)
	require.Zero(c, state.Waits)
}

package matrix_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// waiterLimit is the command timeout of a client that waits behind a proxy:
// below the delays that are too late.
const waiterLimit = time.Second

// waiterFaults are what happens to a request of a waiter, or of a forced end.
var waiterFaults = []fault{
	{name: "request dropped", action: faults.DropRequest},
	{name: "answer dropped", action: faults.DropAnswer},
	{name: "request delayed", action: faults.DelayRequest(300 * time.Millisecond)},
	{name: "answer delayed", action: faults.Delay(300 * time.Millisecond)},
	{name: "request too late", action: faults.DelayRequest(1300 * time.Millisecond)},
	{name: "answer too late", action: faults.Delay(1300 * time.Millisecond)},
	{name: "cut before", action: faults.CutBefore},
	{name: "cut after", action: faults.CutAfter},
	{name: "cut in the answer", action: faults.CutInAnswer},
	{name: "doubled", action: faults.Double},
	{name: "error line", action: faults.ErrorLine(loading)},
	{name: "executed, error line", action: faults.ExecuteThenError(loading)},
	{name: "executed, a proxy's error line", action: faults.ExecuteThenError(upstream)},
	{name: "late", action: faults.HoldOnly},
	{name: "cut and late", action: faults.HoldAndCut},
	{name: "late copy", action: faults.Hold},
}

// transferFaults are some more, that are over while Unlock still waits.
var transferFaults = append([]fault{
	{name: "request a little late", action: faults.DelayRequest(60 * time.Millisecond)},
	{name: "answer a little late", action: faults.Delay(60 * time.Millisecond)},
	{name: "out of memory", action: faults.ErrorLine("OOM command not allowed when used memory > 'maxmemory'.")},
	{
		name:   "executed, out of memory",
		action: faults.ExecuteThenError("OOM command not allowed when used memory > 'maxmemory'."),
	},
}, waiterFaults...)

// waiterCell has a client that waits for the lock behind a proxy, and meets one
// fault.
type waiterCell struct {
	*locktest.FaultBench
	queue   *locktest.QueueBench
	reads   bool // it waits to read
	scripts *lockspec.Queue
	fault   fault
	match   faults.Match
	met     <-chan struct{} // when the fault has happened
}

func newWaiterCell(t testing.TB, s *redistest.Server, m locktest.QueueMode, f fault, sent *script.Script) *waiterCell {
	c := &waiterCell{
		FaultBench: newBench(t, s, relock.WithCommandTimeout(waiterLimit)), fault: f,
		match: faults.Script(sent.SHA), scripts: lockspec.Plain.Queue,
	}
	c.queue = &locktest.QueueBench{
		TB: t, QueueMode: m, Server: s, Clients: []*relock.Client{c.Client, c.Other},
		Key: locktest.KeyOf(c.Client, locktest.QueueKey),
	}
	return c
}

// After each fault in each request of a waiter, the waiter gets the lock, or
// leaves nothing behind, and those behind it get the lock afterwards. What
// comes late touches no hold. See locktest.Cell for what is true all the time.
func TestOneFaultInEachRequestOfAWaiter(t *testing.T) {
	meetFaultsWaiting(t, lockspec.Plain.Queue, []bool{false}, locktest.QueueModes...)
}

func TestRWLockOneFaultInEachRequestOfAWaiter(t *testing.T) {
	meetFaultsWaiting(t, lockspec.Write.Queue, []bool{false, true}, locktest.QueueMode{Kind: "RWLock"},
		locktest.QueueMode{Kind: "RWLock", Fair: true})
}

func meetFaultsWaiting(t *testing.T, scripts *lockspec.Queue, reads []bool, modes ...locktest.QueueMode) {
	t.Helper()
	t.Parallel()
	s := locktest.NewServerWithScripts(t)
	var met atomic.Int64
	var cells []locktest.Subtest
	add := func(name string, sent *script.Script, run func(*waiterCell)) {
		for _, f := range waiterFaults {
			for _, m := range modes {
				for _, r := range reads {
					title := name + "/" + f.name + "/" + m.Title() + map[bool]string{true: ", reads"}[r]
					cells = append(cells, locktest.Subtest{Name: title, Run: func(t testing.TB) {
						c := newWaiterCell(t, s, m, f, sent)
						c.scripts, c.reads = scripts, r
						run(c)
						select {
						case <-c.met:
							met.Add(1)
						default:
						}
					}})
				}
			}
		}
	}
	add("enqueue", scripts.Enqueue, (*waiterCell).isGranted)
	add("claim", scripts.Claim, (*waiterCell).isGranted)
	add("poll", scripts.Poll, (*waiterCell).isGranted)
	add("cancel", scripts.Cancel, (*waiterCell).givesUp)
	add("enqueue, and gives up", scripts.Enqueue, (*waiterCell).givesUp)
	add("claim, and gives up", scripts.Claim, (*waiterCell).givesUp)
	cells = drawn(t, cells)
	locktest.RunTogether(t, cells)
	t.Logf("%d of %d faults", met.Load(), len(cells))
	require.Greater(t, int(met.Load()), len(cells)*3/4, "faults that happened")
}

// begin has the other client hold the lock, and the client behind the proxy
// wait for it.
func (c *waiterCell) begin(ctx context.Context) (h relock.Hold, w *locktest.Waiting) {
	c.Helper()
	h = c.queue.Take(c.Other)
	c.met = c.Proxy.On(c.match, 1, c.fault.action)
	q := c.queue
	if c.reads {
		q = q.Reading()
	}
	return h, q.Wait(ctx, c.Client, relock.WithWatchdog(locktest.FaultLease))
}

// isGranted checks that the waiter gets the lock, and the one behind it
// afterwards.
func (c *waiterCell) isGranted() {
	q := c.queue
	h, w := c.begin(context.Background())
	q.AwaitQueued(1)
	behind := q.WaitNext(context.Background(), 1, c.Other)
	c.Proxy.Release()
	require.NoError(c, h.Err())
	q.Unlock(h)
	start, watch := time.Now(), testkit.NewStopwatch(c)
	select {
	case <-w.Ended:
	case <-behind.Ended: // on a busy machine, or after a long silence, the first one may miss its turn
		q.Unlock(behind.Granted())
		behind = nil
	}
	next := w.Granted()
	watch.Check(w.At.Sub(start), locktest.FaultLease*4/5, "it had to wait for the end of a lease")
	watch.Net() // stops it
	c.awaitFault()
	c.Proxy.Release()
	require.NoError(c, next.Err())
	require.True(c, behind == nil || !behind.HasEnded(), "granted while another one has it")
	c.unlock(next)
	if behind != nil {
		q.Unlock(behind.Granted())
	}
	c.requireIdle()
}

// givesUp has the waiter's context end, before or after the lock could be had.
// What comes late does not touch the hold of the one behind.
func (c *waiterCell) givesUp() {
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
	c.awaitClaim(last)
	before := c.Read()
	c.awaitFault()
	c.Proxy.Release()
	time.Sleep(20 * time.Millisecond) // for what should not happen
	require.NoError(c, last.Err())
	c.RequireUntouched(before, c.Read())
	q.Unlock(last)
	c.requireIdle()
}

// unlock is for a hold from behind the proxy. On a busy machine the answer may
// come too late.
func (c *waiterCell) unlock(h relock.Hold) {
	c.Helper()
	if err := h.Unlock(context.Background()); err != nil {
		require.ErrorIs(c, err, relock.ErrUnconfirmed)
	}
}

// awaitFault waits for the fault. On a busy machine, a waiter may get the lock
// without this request.
func (c *waiterCell) awaitFault() {
	_, _ = testkit.Await(c.met, 4*locktest.AnswerLimit)
}

// requireIdle checks that nothing is left.
func (c *waiterCell) requireIdle() {
	c.Proxy.Release()
	c.queue.RequireNothingLeft()
	require.True(c, locktest.IsIdle(c.Client, locktest.QueueKey))
}

// transferCell has a client behind a proxy that holds the lock, with a local
// waiter, and another client that waits.
type transferCell struct {
	*waiterCell
	hold         relock.Hold
	local, other *locktest.Waiting
}

// After each fault in the request that transfers a lock, Unlock returns in
// time. The local waiter and the other client get the lock one after the other,
// and nothing that comes late touches either. See locktest.Cell for what is
// true all the time.
func TestOneFaultInEachTransfer(t *testing.T) {
	t.Parallel()
	s := locktest.NewServerWithScripts(t)
	var cells []locktest.Subtest
	for name, run := range map[string]func(*transferCell, context.CancelFunc){
		"waits": (*transferCell).waits, "gives up": (*transferCell).givesUp,
	} {
		for _, f := range transferFaults {
			cells = append(cells, locktest.Subtest{Name: name + "/" + f.name, Run: func(t testing.TB) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				c := &transferCell{waiterCell: newWaiterCell(t, s,
					locktest.QueueMode{Kind: "ReentrantLock"}, f, script.ReentrantTransfer)}
				c.hold, c.local = c.queue.Take(c.Client), c.queue.WaitLocally(ctx, 0)
				c.other = c.queue.WaitNext(context.Background(), 1, c.Other)
				locktest.Renew(c, c.hold,
					locktest.FaultPatience) // on a busy machine, too little of the lease is left to transfer it
				locktest.NeverStale(c.Client)
				c.met = c.Proxy.On(c.match, 1, f.action)
				run(c, cancel)
				c.requireIdle()
			}})
		}
	}
	locktest.RunTogether(t, cells)
}

// unlockInTime unlocks, and checks that it does not take longer than it may.
func (c *transferCell) unlockInTime() {
	watch := testkit.NewStopwatch(c)
	c.unlock(c.hold)
	watch.Within(waiterLimit + locktest.FaultPatience/2)
	watch.Net() // stops it
	require.ErrorIs(c, c.hold.Err(), relock.ErrNotHeld)
	c.Await(c.met, "the fault did not happen")
}

func (c *transferCell) waits(context.CancelFunc) {
	c.unlockInTime()
	first, second := c.local, c.other
	watch := testkit.NewStopwatch(c)
	select {
	case <-c.local.Ended:
	case <-c.other.Ended:
		first, second = c.other, c.local
	case <-time.After(testkit.Patience):
		require.FailNow(c, "nobody gets the lock", "%s", c.queue.Snapshot())
	}
	watch.Within(locktest.FaultLease*4/5, "it had to wait for the end of a lease")
	watch.Net() // stops it
	c.requireUnharmed(first, second)
	c.unlock(second.Granted())
}

func (c *transferCell) givesUp(cancel context.CancelFunc) {
	unlocked := testkit.Async(c, func() error {
		c.unlockInTime()
		return nil
	})
	c.Proxy.Await(c.match, 1, testkit.Patience)
	time.Sleep(rand.N(3 * time.Millisecond))
	start, watch := time.Now(), testkit.NewStopwatch(c)
	cancel()
	if err := c.local.End(); err == nil {
		c.unlock(c.local.Hold) // it was given the lock first
	} else {
		require.True(c, errors.Is(err, context.Canceled), err)
		watch.Check(c.local.At.Sub(start), locktest.AnswerLimit/4,
			"it waits for the transfer, which may take half of the command timeout")
	}
	require.NoError(c, testkit.ResultWithin(c, unlocked, testkit.Patience))
	c.other.Granted()
	watch.Check(c.other.At.Sub(start), locktest.FaultLease*4/5, "it had to wait for the end of a lease")
	watch.Net() // stops it
	c.requireUnharmed(c.other, nil)
}

// transferred reports whether the stored hold came by a transfer.
func (c *transferCell) transferred(r locktest.Reading) bool {
	hold := r.Content.(map[string]string)["hold"]
	return slices.ContainsFunc(c.Proxy.Seen(), func(r faults.Request) bool {
		return c.match(r.Args) && slices.Contains(r.Args, hold)
	})
}

// requireUnharmed checks that the hold is untouched by what was held back, and
// unlocks it.
func (c *transferCell) requireUnharmed(w, waits *locktest.Waiting) {
	h := w.Granted()
	before := c.Read()
	c.Proxy.Release()
	time.Sleep(30 * time.Millisecond) // for what the retrier does
	require.NoError(c, h.Err())
	after := c.Read()
	if !c.transferred(before) {
		c.RequireUntouched(before, after)
	}
	require.Equal(c, before.Content, after.Content)
	require.False(c, after.Latest.Before(before.Earliest), "shortened") // a late copy of the same transfer may lengthen it
	require.Equal(c, 1, c.Levels())
	require.True(c, waits == nil || !waits.HasEnded(), "granted while another one has it")
	c.unlock(h)
	c.Proxy.Release()
}

// awaitClaim waits until the claim of a hold that was granted by a message is
// answered, as Extend does. The claim may be sent again until then, and sets
// the expiry each time.
func (c *waiterCell) awaitClaim(h relock.Hold) {
	c.Helper()
	require.NoError(c, h.Extend(context.Background(), locktest.FaultLease))
}

package matrix_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// fault is what happens to the request of an operation.
type fault struct {
	name    string
	action  faults.Action
	late    func(time.Duration) faults.Action // in place of action: later than the caller waits
	granted bool                              // an acquiring call succeeds all the same
	silent  bool                              // there is no answer in time
	leaves  bool                              // the caller's context is cancelled when the proxy has the request
	same    bool                              // the lock is taken again by the same client, else by another
	copy    bool                              // of a request that was answered
	tcp     bool                              // over TCP, else over a unix socket

	// When a request that was held back comes: immediately, after the last
	// release, or during the next hold.
	early, released, next bool
}

const (
	loading  = "LOADING Redis is loading the dataset in memory"
	upstream = "upstream failure" // of a proxy whose server is away
)

var faultKinds = []fault{
	{name: "request dropped", action: faults.DropRequest, silent: true},
	{name: "answer dropped", action: faults.DropAnswer, silent: true},
	{name: "request delayed", action: faults.DelayRequest(2 * locktest.AnswerLimit / 5), granted: true},
	{name: "answer delayed", action: faults.Delay(2 * locktest.AnswerLimit / 5), granted: true},
	{name: "request byte by byte", action: faults.SlowRequest(locktest.AnswerLimit / 10), granted: true},
	{name: "answer byte by byte", action: faults.SlowAnswer(locktest.AnswerLimit / 10), granted: true},
	{name: "cut before", action: faults.CutBefore, granted: true},
	{name: "cut after", action: faults.CutAfter, granted: true},
	{name: "cut in the request", action: faults.CutInRequest, granted: true},
	{name: "cut in the answer", action: faults.CutInAnswer, granted: true},
	{name: "reset in the answer", action: faults.ResetInAnswer, granted: true, tcp: true},
	{name: "answer after the end of ctx", action: faults.Delay(locktest.AnswerLimit - 50*time.Millisecond), leaves: true},
	{
		name:   "request after the end of ctx",
		action: faults.DelayRequest(locktest.AnswerLimit - 50*time.Millisecond), leaves: true,
	},
	{name: "answer after the command timeout", late: faults.Delay, silent: true},
	{name: "request after the command timeout", late: faults.DelayRequest, silent: true, same: true},
	{name: "doubled", action: faults.Double, granted: true},
	{name: "answer doubled", action: faults.DoubleAnswer, granted: true},
	{name: "error line", action: faults.ErrorLine(loading)},
	{name: "executed, error line", action: faults.ExecuteThenError(loading)},
	{name: "a proxy's error line", action: faults.ErrorLine(upstream)},
	{name: "executed, a proxy's error line", action: faults.ExecuteThenError(upstream)},
	{name: "late", action: faults.HoldOnly, silent: true, early: true},
	{name: "late, to a released lock", action: faults.HoldOnly, silent: true, released: true},
	{name: "late, to our next hold", action: faults.HoldOnly, silent: true, same: true, next: true},
	{name: "late, to another's hold", action: faults.HoldOnly, silent: true, next: true},
	{name: "cut and late, to a released lock", action: faults.HoldAndCut, granted: true, released: true},
	{name: "cut and late, to our next hold", action: faults.HoldAndCut, granted: true, same: true, next: true},
	{name: "cut and late, to another's hold", action: faults.HoldAndCut, granted: true, next: true},
	{name: "late copy, to a released lock", action: faults.Hold, granted: true, copy: true, released: true},
	{name: "late copy, to our next hold", action: faults.Hold, granted: true, copy: true, same: true, next: true},
	{name: "late copy, to another's hold", action: faults.Hold, granted: true, copy: true, next: true},
}

// After each fault in each operation the server has what the client knows, the
// lock is released within a second, and the next hold is not touched. See
// locktest.Cell for what is true all the time.
func TestOneFaultInEachOperation(t *testing.T) {
	meetFaults(t, nil, plainBySET, plainByScript, reentrant)
}

func TestRWLockOneFaultInEachOperation(t *testing.T) {
	meetFaults(t, nil, readWrite("r", 1), readWrite("w", 1), readWrite("rw", 3), readWrite("wr", 3))
}

// The only permit is held, or it is not.
func TestSemaphoreOneFaultInEachOperation(t *testing.T) { meetFaults(t, nil, semaphore) }

// Either all keys are held or none.
func TestOneFaultInAMultiLock(t *testing.T) { meetFaults(t, nil, multi) }

// The fault is at one node of three, which is not needed: the call succeeds.
func TestOneFaultInARedLock(t *testing.T) {
	servers := locktest.RedServers.Take(t, 3) // they come of age while other tests run
	meetFaults(t, servers, red)
}

func meetFaults(t *testing.T, nodes []*redistest.Server, kinds ...kind) {
	t.Helper()
	servers := serversByTCP(t)
	t.Parallel()
	if nodes != nil {
		servers[false] = nodes[0]
		for _, s := range append(slices.Clone(nodes), servers[true]) {
			locktest.AwaitUp(t, s)
		}
	}
	var cells []locktest.Subtest
	for _, op := range operationsOf(kinds) {
		for _, f := range faultKinds {
			if op.levels == 0 && f.copy && f.released || op.nodes && f.leaves {
				continue // it takes the free key: TestLateCopyOfAGrantedAcquire; TestRedLockCallThatIsCancelled
			}
			cells = append(cells, locktest.Subtest{Name: op.name() + "/" + f.name, Run: func(t testing.TB) {
				c := &cell{
					FaultBench: newBench(t, servers[f.tcp], relock.WithCommandTimeout(op.patience(f))), operation: op, fault: f,
				}
				c.setUp(nodes)
				c.meetFault()
				c.releaseAll()
				c.requireGone()
				c.takeAgain()
			}})
		}
	}
	locktest.RunTogether(t, drawn(t, cells))
}

// serversByTCP returns a server on a unix socket, and one that is reached over
// TCP.
func serversByTCP(t *testing.T) map[bool]*redistest.Server {
	t.Helper()
	return map[bool]*redistest.Server{
		false: locktest.NewServerWithScripts(t), true: locktest.WithScripts(t, redistest.StartTCP(t)),
	}
}

// meet runs an operation. Its first request that matches meets the fault, which
// may make it as late as given.
func (f fault) meet(c *locktest.FaultBench, match faults.Match, late time.Duration, op func(context.Context)) {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	action := f.action
	if f.late != nil {
		action = f.late(late)
	}
	done := c.Proxy.On(func(args []string) bool {
		matches := match(args)
		if matches && f.leaves {
			cancel()
		}
		return matches
	}, 1, action)
	op(ctx)
	c.Await(done, "the fault did not happen")
	if f.early {
		require.Len(c, c.Proxy.Release(), 1)
	}
}

// newBench returns a cell with a client of one server, or with one that finds
// the server by a topology of two.
func newBench(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *locktest.FaultBench {
	if rand.N(2) == 0 {
		t.Log("one of two servers")
		return locktest.NewRoutedBench(t, s, opts...)
	}
	return locktest.NewFaultBench(t, s, opts...)
}

// drawn returns every third cell of a large matrix, from a random one on,
// unless all are wanted. Neighbours differ in the fault only, so that each
// operation meets a third of the faults.
func drawn(t *testing.T, cells []locktest.Subtest) []locktest.Subtest {
	t.Helper()
	if locktest.FullLength() {
		return cells
	}
	const nth = 3
	first := rand.IntN(nth)
	t.Logf("one cell in %d of %d, from number %d; RELOCK_CELLS=all runs all", nth, len(cells), first)
	var some []locktest.Subtest
	for i := first; i < len(cells); i += nth {
		some = append(some, cells[i])
	}
	return some
}

package relock

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

// fault is what happens to the request.
type fault struct {
	name    string
	action  faults.Action
	late    func(time.Duration) faults.Action // in place of action: later than the caller waits
	granted bool                              // an acquiring call succeeds all the same
	silent  bool                              // there is no answer in time
	leaves  bool                              // the caller's context ends when the proxy has the request
	same    bool                              // the lock is taken again by the same owner, else by another
	copy    bool                              // of a request that was answered
	tcp     bool                              // over TCP, else over a unix socket

	// When what was held back comes: at once, after the last release, or during the next hold.
	early, released, next bool
}

var faultKinds = []fault{
	{name: "request dropped", action: faults.DropRequest, silent: true},
	{name: "answer dropped", action: faults.DropAnswer, silent: true},
	{name: "request delayed", action: faults.DelayRequest(2 * answerLimit / 5), granted: true},
	{name: "answer delayed", action: faults.Delay(2 * answerLimit / 5), granted: true},
	{name: "request byte by byte", action: faults.SlowRequest(answerLimit / 10), granted: true},
	{name: "answer byte by byte", action: faults.SlowAnswer(answerLimit / 10), granted: true},
	{name: "cut before", action: faults.CutBefore, granted: true},
	{name: "cut after", action: faults.CutAfter, granted: true},
	{name: "cut in the request", action: faults.CutInRequest, granted: true},
	{name: "cut in the answer", action: faults.CutInAnswer, granted: true},
	{name: "reset in the answer", action: faults.ResetInAnswer, granted: true, tcp: true},
	{name: "answer after the end of ctx", action: faults.Delay(answerLimit - 50*time.Millisecond), leaves: true},
	{name: "request after the end of ctx", action: faults.DelayRequest(answerLimit - 50*time.Millisecond), leaves: true},
	{name: "answer after the command timeout", late: faults.Delay, silent: true},
	{name: "request after the command timeout", late: faults.DelayRequest, silent: true, same: true},
	{name: "doubled", action: faults.Double, granted: true},
	{name: "answer doubled", action: faults.DoubleAnswer, granted: true},
	{name: "error line", action: faults.ErrorLine("LOADING Redis is loading the dataset in memory")},
	{name: "executed, error line", action: faults.ExecuteThenError("LOADING Redis is loading the dataset in memory")},
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

// After each fault in each operation the server has what the client was told, the lock is given back within a second, and the next
// hold is not touched. See observe for what holds all the time.
func TestOneFaultInEachOperation(t *testing.T) {
	t.Parallel()
	unix, tcp := newFaultServer(t), taught(t, redistest.StartTCP(t))
	var cells []cellRun
	for _, op := range variants() {
		for _, f := range faultKinds {
			if op.first && f.copy && f.released {
				continue // it takes the free key, see TestLateCopyOfAGrantedAcquire
			}
			s := unix
			if f.tcp {
				s = tcp
			}
			cells = append(cells, cellRun{op.fullName() + "/" + f.name, func(t testing.TB) {
				c := &cellWithFault{cell: newCell(t, s, WithCommandTimeout(op.patience(f))), op: op, fault: f}
				c.setUp()
				c.meetFault()
				c.giveBack()
				c.requireGone()
				c.next()
			}})
		}
	}
	cells = drawn(t, cells)
	together(t, cells)
}

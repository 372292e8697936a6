package matrix_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

var faultKinds = []locktest.Fault{
	{Name: "request dropped", Action: faults.DropRequest, Silent: true},
	{Name: "answer dropped", Action: faults.DropAnswer, Silent: true},
	{Name: "request delayed", Action: faults.DelayRequest(2 * locktest.AnswerLimit / 5), Granted: true},
	{Name: "answer delayed", Action: faults.Delay(2 * locktest.AnswerLimit / 5), Granted: true},
	{Name: "request byte by byte", Action: faults.SlowRequest(locktest.AnswerLimit / 10), Granted: true},
	{Name: "answer byte by byte", Action: faults.SlowAnswer(locktest.AnswerLimit / 10), Granted: true},
	{Name: "cut before", Action: faults.CutBefore, Granted: true},
	{Name: "cut after", Action: faults.CutAfter, Granted: true},
	{Name: "cut in the request", Action: faults.CutInRequest, Granted: true},
	{Name: "cut in the answer", Action: faults.CutInAnswer, Granted: true},
	{Name: "reset in the answer", Action: faults.ResetInAnswer, Granted: true, Tcp: true},
	{Name: "answer after the end of ctx", Action: faults.Delay(locktest.AnswerLimit - 50*time.Millisecond), Leaves: true},
	{Name: "request after the end of ctx", Action: faults.DelayRequest(locktest.AnswerLimit - 50*time.Millisecond), Leaves: true},
	{Name: "answer after the command timeout", Late: faults.Delay, Silent: true},
	{Name: "request after the command timeout", Late: faults.DelayRequest, Silent: true, Same: true},
	{Name: "doubled", Action: faults.Double, Granted: true},
	{Name: "answer doubled", Action: faults.DoubleAnswer, Granted: true},
	{Name: "error line", Action: faults.ErrorLine("LOADING Redis is loading the dataset in memory")},
	{Name: "executed, error line", Action: faults.ExecuteThenError("LOADING Redis is loading the dataset in memory")},
	{Name: "late", Action: faults.HoldOnly, Silent: true, Early: true},
	{Name: "late, to a released lock", Action: faults.HoldOnly, Silent: true, Released: true},
	{Name: "late, to our next hold", Action: faults.HoldOnly, Silent: true, Same: true, Next: true},
	{Name: "late, to another's hold", Action: faults.HoldOnly, Silent: true, Next: true},
	{Name: "cut and late, to a released lock", Action: faults.HoldAndCut, Granted: true, Released: true},
	{Name: "cut and late, to our next hold", Action: faults.HoldAndCut, Granted: true, Same: true, Next: true},
	{Name: "cut and late, to another's hold", Action: faults.HoldAndCut, Granted: true, Next: true},
	{Name: "late copy, to a released lock", Action: faults.Hold, Granted: true, Copy: true, Released: true},
	{Name: "late copy, to our next hold", Action: faults.Hold, Granted: true, Copy: true, Same: true, Next: true},
	{Name: "late copy, to another's hold", Action: faults.Hold, Granted: true, Copy: true, Next: true},
}

// After each fault in each operation the server has what the client was told, the lock is given back within a second, and the next
// hold is not touched. See observe for what holds all the time.
func TestOneFaultInEachOperation(t *testing.T) {
	t.Parallel()
	unix, tcp := locktest.NewFaultServer(t), locktest.Taught(t, redistest.StartTCP(t))
	var cells []locktest.CellRun
	for _, op := range locktest.Variants() {
		for _, f := range faultKinds {
			if op.First && f.Copy && f.Released {
				continue // it takes the free key, see TestLateCopyOfAGrantedAcquire
			}
			s := unix
			if f.Tcp {
				s = tcp
			}
			cells = append(cells, locktest.CellRun{Name: op.FullName() + "/" + f.Name, Run: func(t testing.TB) {
				c := &locktest.CellWithFault{Cell: locktest.NewCell(t, s, relock.WithCommandTimeout(op.Patience(f))), Op: op, Fault: f}
				c.SetUp()
				c.MeetFault()
				c.GiveBack()
				c.RequireGone()
				c.Next()
			}})
		}
	}
	cells = locktest.Drawn(t, cells)
	locktest.Together(t, cells)
}

package matrix_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// rwVariants are the operations of a read/write lock, at levels that read and levels that write.
func rwVariants() (all []locktest.Variant) {
	try, enter, renew := faults.Script(script.RWTry.SHA), faults.Script(script.RWEnter.SHA), faults.Script(script.RWRenew.SHA)
	release := faults.Script(script.RWRelease.SHA)
	for _, order := range []string{"r", "w", "rw", "wr"} {
		if len(order) == 1 {
			all = append(all, locktest.Variant{Name: "acquire", Rw: order, Match: try, First: true, Run: locktest.RunAcquire})
		}
		most := 3
		if len(order) == 1 {
			most = 1
		}
		for n := 1; n <= most; n++ {
			all = append(
				all,
				locktest.Variant{Name: fmt.Sprintf("re-entry at level %d", n+1), Rw: order, Levels: n, Match: enter, Run: locktest.RunAcquire},
				locktest.Variant{Name: fmt.Sprintf("renewal of level %d", n), Rw: order, Levels: n, Match: renew, Renews: true, Run: locktest.RunRenewal},
				locktest.Variant{Name: fmt.Sprintf("extension of level %d", n), Rw: order, Levels: n, Match: renew, Run: locktest.RunExtension},
				locktest.Variant{Name: fmt.Sprintf("release of level %d", n), Rw: order, Levels: n, Match: release, Releases: true, Run: locktest.RunRelease},
			)
		}
	}
	for i := range all {
		all[i].Name = all[i].Rw + ": " + all[i].Name
		all[i].Lease = "fixed"
		if all[i].Renews {
			all[i].Lease = "watched"
		}
	}
	return all
}

// TestOneFaultInEachOperation, for a read/write lock: after each fault the server has what the client was told, others get in as soon as
// they may, and the next hold is not touched.
func TestRWLockOneFaultInEachOperation(t *testing.T) {
	t.Parallel()
	unix, tcp := locktest.NewFaultServer(t), locktest.Taught(t, redistest.StartTCP(t))
	var cells []locktest.CellRun
	for _, op := range rwVariants() {
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
				locktest.RequireRWGone(t, s, c.Client, locktest.CellKey)
			}})
		}
	}
	cells = locktest.Drawn(t, cells)
	locktest.Together(t, cells)
}

// TestOneFaultInEachRequestOfAWaiter, for a read/write lock: one who waits to write, or to read.
func TestRWLockOneFaultInEachRequestOfAWaiter(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	var met atomic.Int64
	var cells []locktest.CellRun
	for name, run := range map[string]struct {
		script *script.Script
		run    func(*cellWithWaiter)
	}{
		"enqueue":               {script.RWEnqueue, (*cellWithWaiter).isGranted},
		"claim":                 {script.RWClaim, (*cellWithWaiter).isGranted},
		"poll":                  {script.RWPoll, (*cellWithWaiter).isGranted},
		"cancel":                {script.RWCancel, (*cellWithWaiter).givesUp},
		"enqueue, and gives up": {script.RWEnqueue, (*cellWithWaiter).givesUp},
		"claim, and gives up":   {script.RWClaim, (*cellWithWaiter).givesUp},
	} {
		for _, f := range queueFaults {
			for kind := range locktest.RwKinds {
				for _, fair := range []bool{false, true} {
					m := locktest.QueueMode{Kind: kind, Fair: fair}
					cells = append(cells, locktest.CellRun{Name: name + "/" + f.name + "/" + m.Title(), Run: func(t testing.TB) {
						c := newCellWithWaiter(t, s, m, f, faults.Script(run.script.SHA))
						c.scripts, c.count = lockspec.RWQueue, &met
						run.run(c)
					}})
				}
			}
		}
	}
	cells = locktest.Drawn(t, cells)
	locktest.Together(t, cells)
	t.Logf("%d of %d faults", met.Load(), len(cells))
	require.Greater(t, int(met.Load()), len(cells)*3/4, "faults that happened")
}

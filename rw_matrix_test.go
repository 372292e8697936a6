package relock

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// rwVariants are the operations of a read/write lock, at levels that read and levels that write.
func rwVariants() (all []variant) {
	try, enter, renew := faults.Script(script.RWTry.SHA), faults.Script(script.RWEnter.SHA), faults.Script(script.RWRenew.SHA)
	release := faults.Script(script.RWRelease.SHA)
	for _, order := range []string{"r", "w", "rw", "wr"} {
		if len(order) == 1 {
			all = append(all, variant{name: "acquire", rw: order, match: try, first: true, run: runAcquire})
		}
		most := 3
		if len(order) == 1 {
			most = 1
		}
		for n := 1; n <= most; n++ {
			all = append(
				all,
				variant{name: fmt.Sprintf("re-entry at level %d", n+1), rw: order, levels: n, match: enter, run: runAcquire},
				variant{name: fmt.Sprintf("renewal of level %d", n), rw: order, levels: n, match: renew, renews: true, run: runRenewal},
				variant{name: fmt.Sprintf("extension of level %d", n), rw: order, levels: n, match: renew, run: runExtension},
				variant{name: fmt.Sprintf("release of level %d", n), rw: order, levels: n, match: release, releases: true, run: runRelease},
			)
		}
	}
	for i := range all {
		all[i].name = all[i].rw + ": " + all[i].name
		all[i].lease = "fixed"
		if all[i].renews {
			all[i].lease = "watched"
		}
	}
	return all
}

// TestOneFaultInEachOperation, for a read/write lock: after each fault the server has what the client was told, others get in as soon as
// they may, and the next hold is not touched.
func TestRWLockOneFaultInEachOperation(t *testing.T) {
	t.Parallel()
	unix, tcp := newFaultServer(t), taught(t, redistest.StartTCP(t))
	var cells []cellRun
	for _, op := range rwVariants() {
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
				requireRWGone(t, s, c.client, cellKey)
			}})
		}
	}
	cells = drawn(t, cells)
	together(t, cells)
}

// TestOneFaultInEachRequestOfAWaiter, for a read/write lock: one who waits to write, or to read.
func TestRWLockOneFaultInEachRequestOfAWaiter(t *testing.T) {
	t.Parallel()
	s := newFaultServer(t)
	var met atomic.Int64
	var cells []cellRun
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
			for kind := range rwKinds {
				for _, fair := range []bool{false, true} {
					m := queueMode{kind, fair}
					cells = append(cells, cellRun{name + "/" + f.name + "/" + m.name(), func(t testing.TB) {
						c := newCellWithWaiter(t, s, m, f, faults.Script(run.script.SHA))
						c.scripts, c.count = lockspec.RWQueue, &met
						run.run(c)
					}})
				}
			}
		}
	}
	cells = drawn(t, cells)
	together(t, cells)
	t.Logf("%d of %d faults", met.Load(), len(cells))
	require.Greater(t, int(met.Load()), len(cells)*3/4, "faults that happened")
}

package proof

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

// A process with many goroutines that want a lock leaves other processes their
// share. Each process that always has a waiter holds the lock for at least half
// of its fair share. Without the budget for hand-offs within a process the
// others would get almost nothing.
func TestGreedyProcessLeavesOthersTheirShare(t *testing.T) {
	for _, kind := range kindsOfLocks {
		for _, work := range []time.Duration{0, time.Millisecond} {
			t.Run(fmt.Sprintf("%s, held for %v", kind, work), func(t *testing.T) {
				l := runGreedy(t, kind, work, pick(10*time.Second, 500*time.Millisecond))
				var total int64
				for _, held := range l.held {
					total += held
				}
				for process, held := range l.held {
					t.Logf("process %d: %4.1f %% of the time, %d grants", process, 100*float64(held)/float64(total), l.grants[process])
				}
				for process, held := range l.held {
					require.GreaterOrEqual(t, held, total/greedyProcesses/2, "process %d", process)
				}
			})
		}
	}
}

// runGreedy lets one process with 64 goroutines and three with 4 compete for a
// lock for a while.
func runGreedy(t *testing.T, kind string, work, length time.Duration) ledger {
	server := redistest.Start(t)
	path, all := newShared[ledger](t)
	all.owner = -1
	var children []*faults.Child
	for process := range greedyProcesses {
		goroutines := 4
		if process == 0 {
			goroutines = 64
		}
		children = append(children, faults.Spawn(t, "greedy", server.Network, server.Address, kind, path,
			strconv.Itoa(process), strconv.Itoa(goroutines), strconv.FormatInt(work.Microseconds(), 10)))
	}
	for _, child := range children {
		child.Next("ready", patience)
	}
	for _, child := range children {
		child.Send("go")
	}
	time.Sleep(length)
	figures := *all // while all of them are there
	for _, child := range children {
		child.End(patience)
	}
	return figures
}

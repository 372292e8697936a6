package proof

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A process with many goroutines that want a lock leaves other processes their
// share. Each process that always has a waiter holds the lock for at least half
// of its fair share, or is granted it so often: a process that the machine
// delays holds it for longer. Without the budget for hand-offs within a process
// the others would get almost nothing.
func TestGreedyProcessLeavesOthersTheirShare(t *testing.T) {
	for _, kind := range kindsOfLocks {
		for _, work := range []time.Duration{0, time.Millisecond} {
			t.Run(fmt.Sprintf("%s, held for %v", kind, work), func(t *testing.T) {
				l := runGreedy(t, kind, work, pick(10*time.Second, 500*time.Millisecond))
				held, grants := sharesOf(l.held), sharesOf(l.grants)
				t.Logf("shares of the time %.2f, of %d grants %.2f", held, l.total(), grants)
				for process := range held {
					require.GreaterOrEqual(t, max(held[process], grants[process]), 0.5/greedyProcesses, "process %d", process)
				}
			})
		}
	}
}

// sharesOf returns the share of each process in their sum.
func sharesOf(figures [greedyProcesses]int64) (shares []float64) {
	sum := int64(0)
	for _, n := range figures {
		sum += n
	}
	for _, n := range figures {
		shares = append(shares, float64(n)/float64(sum))
	}
	return shares
}

// runGreedy lets one process with 64 goroutines and three with 4 compete for a
// lock for a while: longer on a slow machine, and while there are few grants.
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
	start, watch := time.Now(), testkit.NewStopwatch(t)
	time.Sleep(length)
	time.Sleep(10 * (time.Since(start) - watch.Net())) // delays of the processes even out
	const enough = 40 * greedyProcesses
	testkit.Eventually(t, patience, func() bool { return all.total() >= enough }, "hardly any grants")
	figures := *all // while all of them are there
	for _, child := range children {
		child.End(patience)
	}
	return figures
}

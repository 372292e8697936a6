package testkit

import (
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// verdict is a test that a stopwatch may fail.
type verdict struct {
	testing.TB
	failed bool
}

func (v *verdict) Errorf(string, ...any) { v.failed = true }
func (v *verdict) FailNow()              {}

// Not parallel: others would be late because of its loops. Five promises take
// as long as the most that a machine may add, so no machine hides the fault
// unless the stopwatch logs that it cannot judge.
func TestStopwatchFindsFiveTimesAPromise(t *testing.T) {
	const promise = mostLateness / 5
	for name, loops := range map[string]int{"quiet": 0, "beside four loops": 4} {
		t.Run(name, func(t *testing.T) {
			for range loops {
				keepBusy(t)
			}
			for what, took := range map[string]time.Duration{"kept": promise / 2, "broken": promise + 5*promise} {
				v := &verdict{TB: t}
				s := NewStopwatch(v)
				<-time.After(took)
				s.Within(promise)
				broken := what == "broken" && latenessShare*s.lateness() <= mostLateness
				require.Equal(t, broken, v.failed, "%s, %v late", what, s.lateness())
				require.Equal(t, what == "broken", s.Net() > promise, what)
			}
		})
	}
}

func TestStopwatchAllowsForLateness(t *testing.T) {
	for name, c := range map[string]struct {
		late, took time.Duration
		failed     bool
	}{
		"three times the lateness": {100 * time.Millisecond, 1299 * time.Millisecond, false},
		"more":                     {100 * time.Millisecond, 1301 * time.Millisecond, true},
		"too slow to judge":        {time.Second, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := &verdict{TB: t}
			s := &Stopwatch{t: v, began: time.Now().Add(-time.Hour)}
			s.rang, s.most = time.Hour, c.late
			s.Check(c.took, time.Second)
			require.Equal(t, c.failed, v.failed)
		})
	}
}

func TestStopwatchMeasuresLateness(t *testing.T) {
	s := NewStopwatch(t)
	Eventually(t, Patience, func() bool { return s.lateness() > 0 }, "no timer is exact")
	s.stop()
	before := s.lateness()
	Eventually(t, Patience, func() bool { return s.lateness() > before }, "the ring that is due counts")
}

// Not parallel: it has one processor. Goroutines that can run are in line
// before the one that an answer wakes, and the stopwatch sees how long they
// take.
func TestStopwatchWaitsInLine(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const others, each = 30, 5 * time.Millisecond
	s := NewStopwatch(t)
	var group sync.WaitGroup
	for range others {
		group.Go(func() {
			for begun := time.Now(); time.Since(begun) < each; { // computes
			}
		})
	}
	group.Wait()
	Eventually(t, Patience, func() bool { return s.lateness() > 0 }, "it rings")
	require.Greater(t, s.lateness(), others*each/2)
}

// keepBusy uses a processor until the test ends.
func keepBusy(t *testing.T) {
	t.Helper()
	loop := exec.Command("sh", "-c", "while :; do :; done")
	require.NoError(t, loop.Start())
	t.Cleanup(func() {
		_ = loop.Process.Kill()
		_ = loop.Wait()
	})
}

package locktest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// CellRun is a subtest that usually waits.
type CellRun struct {
	Name string
	Run  func(t testing.TB)
}

// slots limits the subtests of all tests that run together.
var slots = make(chan struct{}, 96)

// Together runs cells at the same time, many more than t.Parallel would on a
// small machine, and reports each as a subtest.
func Together(t *testing.T, cells []CellRun) {
	t.Helper()
	results := make([]*cellT, len(cells))
	for i, cell := range cells {
		results[i] = &cellT{TB: t, name: t.Name() + "/" + cell.Name, done: make(chan struct{})}
	}
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		for i, cell := range cells {
			slots <- struct{}{}
			awaitCalm()
			group.Go(func() {
				defer func() { <-slots }()
				results[i].run(cell.Run)
			})
		}
	})
	for i, cell := range cells {
		t.Run(cell.Name, func(t *testing.T) {
			<-results[i].done
			for _, note := range results[i].notes {
				t.Log(note)
			}
			for _, failure := range results[i].failures {
				t.Error(failure)
			}
		})
	}
}

// awaitCalm delays the next subtest for a moment, and for longer while the
// machine is so busy that timers are late. Subtests usually wait, with limits
// of time.
func awaitCalm() {
	const nap, late, limit = 4 * time.Millisecond, 6 * time.Millisecond, 250 * time.Millisecond
	for begin := time.Now(); time.Since(begin) < limit; {
		start := time.Now()
		time.Sleep(nap)
		if time.Since(start) < late {
			return
		}
	}
}

// AllCells reports whether tests run at full length: each cell of a matrix, and
// all rounds of a storm. It is the nightly setting. A run of one cell by its
// name has it too.
func AllCells() bool {
	return os.Getenv("RELOCK_CELLS") == "all" || strings.Contains(flag.Lookup("test.run").Value.String(), "/")
}

// cellT is the testing.TB of a subtest, which runs on its own goroutine.
type cellT struct {
	testing.TB
	name string
	done chan struct{}

	mu       sync.Mutex
	notes    []string
	failures []string
	cleanups []func()
}

func (t *cellT) run(f func(testing.TB)) {
	defer close(t.done)
	defer t.cleanup()
	f(t)
}

func (t *cellT) cleanup() {
	t.mu.Lock()
	cleanups := t.cleanups
	t.mu.Unlock()
	for _, f := range cleanups {
		defer f() // the newest first, and all of them
	}
}

func (t *cellT) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *cellT) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

func (t *cellT) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	t.FailNow()
}

func (t *cellT) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }

func (t *cellT) FailNow() { runtime.Goexit() }

func (t *cellT) Log(args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, fmt.Sprint(args...))
}

func (t *cellT) Logf(format string, args ...any) { t.Log(fmt.Sprintf(format, args...)) }

func (t *cellT) Name() string { return t.name }

func (t *cellT) Helper() {}

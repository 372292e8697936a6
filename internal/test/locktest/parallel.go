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

	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/redistest"
)

// Subtest is a subtest that usually waits.
type Subtest struct {
	Name string
	Run  func(t testing.TB)
}

// slots limits the subtests of all tests that run together.
var slots = make(chan struct{}, 96)

// RunTogether runs cells at the same time, many more than t.Parallel would on a
// small machine, and reports each as a subtest.
func RunTogether(t *testing.T, cells []Subtest) {
	t.Helper()
	results := make([]*subtest, len(cells))
	for i, cell := range cells {
		results[i] = &subtest{TB: t, name: t.Name() + "/" + cell.Name, done: make(chan struct{})}
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

// FullLength reports whether tests run at full length: each cell of a matrix,
// and all rounds of a storm. It is the nightly setting. A run of one cell by
// its name has it too.
func FullLength() bool {
	return os.Getenv("RELOCK_CELLS") == "all" || strings.Contains(flag.Lookup("test.run").Value.String(), "/")
}

// subtest is the testing.TB of a subtest, which runs on its own goroutine.
type subtest struct {
	testing.TB
	name string
	done chan struct{}

	mu       sync.Mutex
	notes    []string
	failures []string
	cleanups []func()
}

func (t *subtest) run(f func(testing.TB)) {
	defer close(t.done)
	defer t.cleanup()
	f(t)
}

func (t *subtest) cleanup() {
	t.mu.Lock()
	cleanups := t.cleanups
	t.mu.Unlock()
	for _, f := range cleanups {
		defer f() // the newest first, and all of them
	}
}

func (t *subtest) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *subtest) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

func (t *subtest) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	t.FailNow()
}

func (t *subtest) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }

func (t *subtest) FailNow() { runtime.Goexit() }

func (t *subtest) Log(args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, fmt.Sprint(args...))
}

func (t *subtest) Logf(format string, args ...any) { t.Log(fmt.Sprintf(format, args...)) }

func (t *subtest) Name() string { return t.name }

func (t *subtest) Helper() {}

// Run runs the tests of a package, more together than there are processors.
// Then it stops the servers that were kept for later tests, runs the given
// functions, and checks that no goroutine is left. It returns the exit code.
func Run(m *testing.M, after ...func()) (code int) {
	redistest.Overlap()
	code = m.Run()
	RedServers.Close()
	for _, f := range after {
		f()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		return 1
	}
	return code
}

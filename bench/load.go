package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// load is what each process does with one library.
type load struct {
	Work       string // of works
	Library    string
	Address    string
	Processes  int
	Goroutines int
	OneKey     bool          // all want the same key, else each goroutine has its own
	Hold       time.Duration // from the lock to its unlock
	Think      time.Duration // from the unlock to the next lock
	Ramp       time.Duration // until counting begins
	Duration   time.Duration // of what is counted
	Patience   time.Duration // for the last waiters, after that
}

// report is what one process saw. Each kind of work fills in its own part.
type report struct {
	Counts  []int64         `json:",omitempty"` // pairs of each goroutine within Time
	Time    time.Duration   `json:",omitempty"`
	Mallocs uint64          `json:",omitempty"` // of the process within Time
	Grants  [][]grant       `json:",omitempty"` // of each goroutine
	Stuck   int64           `json:",omitempty"` // goroutines that were still waiting when Patience was over
	Outer   []time.Duration `json:",omitempty"` // of blocks of pairs
	Nested  []time.Duration `json:",omitempty"` // of blocks of as many pairs inside another
}

// works are the kinds of work.
var works = map[string]func(load, library) (report, error){
	"count": countPairs,
	"trace": traceGrants,
	"nest":  timeNested,
}

// patience is how long the last waiters have: with some libraries a wake-up that is missed is missed for good, also where nobody else wants
// the key.
const patience = 3 * time.Second

// waiting is the context of all locks: as in a server, it can end.
func (l load) waiting() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), l.Ramp+l.Duration+l.Patience)
}

// mutexes are the locks of a process's goroutines, on connections that are there already: each has made a pair, on a key of its own.
func (l load) mutexes(lib library) ([]mutex, error) {
	ctx, cancel := l.waiting()
	defer cancel()
	all := make([]mutex, l.Goroutines)
	return all, inParallel(l.Goroutines, func(i int) error {
		all[i] = lib.mutex(l.key(i))
		err := pair(ctx, lib.mutex(fmt.Sprintf("warm-%s-%d", processName(), i)))
		if ctx.Err() != nil {
			return nil // it was never woken; the measurement goes on without the connection
		}
		return err
	})
}

func (l load) key(i int) string {
	if l.OneKey {
		return "key"
	}
	return fmt.Sprintf("key-%d", i)
}

func pair(ctx context.Context, m mutex) error {
	if err := m.Lock(ctx); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if err := m.Unlock(ctx); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

// inParallel runs f for 0 to n-1, on a goroutine each.
func inParallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d goroutines failed: %w", len(errs), n, errs[0])
}

// mallocs is how many objects the process has allocated.
func mallocs() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

// errTwo is the error of a lock that is none.
var errTwo = errors.New("two had the lock at once")

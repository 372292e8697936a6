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
	Work       string // a key of works
	Library    string
	Address    string
	Processes  int
	Goroutines int
	OneKey     bool          // all goroutines want the same key; otherwise each has its own
	Together   int           // that may hold it at the same time; 0 means 1
	Hold       time.Duration // from the lock to its unlock
	Think      time.Duration // from the unlock to the next lock
	Ramp       time.Duration // until measuring begins
	Duration   time.Duration // of the measurement
	Patience   time.Duration // for the last waiters, after the measurement
	Holds      int           // locks that a process keeps
	Tasks      int           // of a task queue
	Brief      bool          // what cannot be shortened otherwise is
}

// report is what one process measured. Each kind of work fills in its own part.
type report struct {
	Counts  []int64         `json:",omitempty"` // pairs of each goroutine within Time
	Time    time.Duration   `json:",omitempty"`
	Mallocs uint64          `json:",omitempty"` // of the process within Time
	Grants  [][]grant       `json:",omitempty"` // of each goroutine
	Stuck   int64           `json:",omitempty"` // goroutines that were still waiting after Patience
	Plain   []time.Duration `json:",omitempty"` // times of blocks of pairs of a plain lock
	Outer   []time.Duration `json:",omitempty"` // times of blocks of pairs
	Nested  []time.Duration `json:",omitempty"` // times of blocks of as many pairs inside another pair
}

// works are the kinds of work.
var works = map[string]func(load, library) (report, error){
	"count": countPairs,
	"trace": traceGrants,
	"nest":  timeNested,
}

// patience is how long the last waiters have. In some libraries a waiter that
// misses its wake-up is never woken, even if the key is free.
const patience = 3 * time.Second

// waiting returns the context of all locks. As in a server, it can be
// cancelled.
func (l load) waiting() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), l.Ramp+l.Duration+l.Patience)
}

// mutexes returns the locks of a process's goroutines. Their connections are
// already open: each goroutine has locked and unlocked a separate key.
func (l load) mutexes(lib library) ([]mutex, error) {
	ctx, cancel := l.waiting()
	defer cancel()
	all := make([]mutex, l.Goroutines)
	return all, inParallel(l.Goroutines, func(i int) error {
		all[i] = lib.mutex(l.key(i))
		err := pair(ctx, lib.mutex(fmt.Sprintf("warm-%s-%d", processName(), i)))
		if ctx.Err() != nil {
			return nil // it was never woken; measure without this connection
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

// inParallel runs f for 0 to n-1, each on its own goroutine.
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

// mallocs returns how many objects the process has allocated.
func mallocs() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

// errMore is the error of a lock that does not exclude.
var errMore = errors.New("more held the lock together than may")

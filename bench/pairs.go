package main

import (
	"context"
	"sync/atomic"
	"time"
)

// The phases of counting.
const (
	ramping = iota
	counting
	over
)

// counter is shared by the goroutines of a process.
type counter struct {
	phase atomic.Int32
	held  atomic.Int64 // by how many, the one key
	stuck atomic.Int64
	pairs []padded
}

// padded fills a cache line, so that goroutines do not slow each other.
type padded struct {
	n int64
	_ [120]byte
}

// countPairs counts the pairs of lock and unlock that end within a given time,
// after a ramp.
func countPairs(l load, lib library) (report, error) {
	mutexes, err := l.mutexes(lib)
	if err != nil {
		return report{}, err
	}
	ctx, cancel := l.waiting()
	defer cancel()
	c := &counter{pairs: make([]padded, l.Goroutines)}
	done := make(chan error, 1)
	go func() {
		done <- inParallel(l.Goroutines, func(i int) error { return c.run(ctx, l, mutexes[i], &c.pairs[i].n) })
	}()
	r := c.measure(l)
	err = <-done
	r.Stuck = c.stuck.Load()
	return r, err
}

// measure waits for the start and the end of counting.
func (c *counter) measure(l load) report {
	time.Sleep(l.Ramp)
	allocated, start := mallocs(), time.Now()
	c.phase.Store(counting)
	time.Sleep(l.Duration)
	c.phase.Store(over)
	return report{Counts: c.counts(), Time: time.Since(start), Mallocs: mallocs() - allocated}
}

func (c *counter) counts() []int64 {
	counts := make([]int64, len(c.pairs))
	for i := range c.pairs {
		counts[i] = atomic.LoadInt64(&c.pairs[i].n)
	}
	return counts
}

// run makes pairs until counting is over.
func (c *counter) run(ctx context.Context, l load, m mutex, n *int64) error {
	for c.phase.Load() != over {
		if err := c.pair(ctx, l, m); ctx.Err() != nil {
			c.stuck.Add(1)
			return nil
		} else if err != nil {
			return err
		}
		if c.phase.Load() == counting {
			atomic.AddInt64(n, 1)
		}
	}
	return nil
}

// pair locks and unlocks. It also checks that no more goroutines have the one
// key than may.
func (c *counter) pair(ctx context.Context, l load, m mutex) error {
	if !l.OneKey {
		return pair(ctx, m)
	}
	if err := m.Lock(ctx); err != nil {
		return err
	}
	if c.held.Add(1) > int64(max(l.Together, 1)) {
		return errMore
	}
	time.Sleep(l.Hold)
	c.held.Add(-1)
	return m.Unlock(ctx)
}

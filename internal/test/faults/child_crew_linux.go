package faults

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// Crew is processes, each in a place. One that was killed or has ended has a
// successor in its place.
type Crew struct {
	tb       testing.TB
	spawn    func(place int) *Child
	All      []*Child      // those of before included
	Running  []int         // the number in All, by place
	KilledAt map[int]int64 // by the number in All
}

// StartCrew starts a process in each place.
func StartCrew(tb testing.TB, places int, spawn func(place int) *Child) *Crew {
	tb.Helper()
	c := &Crew{tb: tb, spawn: spawn, Running: make([]int, places), KilledAt: map[int]int64{}}
	for place := range places {
		c.fill(place)
	}
	return c
}

func (c *Crew) fill(place int) {
	c.tb.Helper()
	c.Running[place] = len(c.All)
	c.All = append(c.All, c.spawn(place))
}

// Count returns how many events of a name all processes have reported.
func (c *Crew) Count(name string) (n int) {
	for _, process := range c.All {
		for _, e := range process.Events() {
			if e.Name == name {
				n++
			}
		}
	}
	return n
}

// At returns the process in a place.
func (c *Crew) At(place int) *Child { return c.All[c.Running[place]] }

// Kill kills the process in a place, and starts another.
func (c *Crew) Kill(place int) {
	c.tb.Helper()
	c.At(place).Kill()
	c.KilledAt[c.Running[place]] = Now()
	c.fill(place)
}

// Replace ends the process in a place, and starts another.
func (c *Crew) Replace(place int, limit time.Duration) {
	c.tb.Helper()
	c.At(place).End(limit)
	c.fill(place)
}

// Halt stops the process in a place for a while.
func (c *Crew) Halt(place int, d time.Duration) {
	c.tb.Helper()
	process := c.At(place)
	process.Stop()
	time.Sleep(d)
	process.Continue()
}

// End ends all processes.
func (c *Crew) End(limit time.Duration) {
	c.tb.Helper()
	for place := range c.Running {
		c.At(place).End(limit)
	}
}

// Context is cancelled when the test ends the process, which gets no commands.
func (s *Self) Context() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for range s.Commands { // there are none
		}
		cancel()
	}()
	return ctx
}

// Together runs f on n goroutines, and returns their errors.
func Together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

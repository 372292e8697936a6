package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The number of competitors.
const (
	processes  = 3
	goroutines = 10 // of each
)

// turn is the time in which one goroutine had the lock. Times are in
// nanoseconds, by the clock of the machine.
type turn struct {
	Process, Goroutine int
	Asked              int // its number in the order of requests, from 1
	From, To           int64
}

// inOrder sorts the turns by the time when they began.
func inOrder(turns []turn) {
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.From, b.From) })
}

// check returns an error if a turn is missing, two turns overlap, or a fair
// lock was not granted in the order of requests. The turns must be in order.
func check(fair bool, turns []turn) error {
	if len(turns) != processes*goroutines {
		return fmt.Errorf("%d of %d had the lock", len(turns), processes*goroutines)
	}
	for i, t := range turns[1:] {
		before := turns[i]
		if t.From < before.To {
			return errors.New("two held the lock together")
		}
		if fair && t.Asked < before.Asked {
			return errors.New("a waiter has overtaken another")
		}
	}
	return nil
}

// show returns a table of the turns in their order, each with the time since
// the previous one ended.
func show(fair bool, turns []turn) string {
	out := &strings.Builder{}
	fmt.Fprintf(out, "\n%s: %d processes x %d goroutines\n",
		map[bool]string{true: "fair", false: "unfair"}[fair], processes, goroutines)
	fmt.Fprintf(out, "%10s  %-8s %-10s %8s %10s\n", "at", "process", "goroutine", "asked as", "gap")
	var gaps []time.Duration
	for i, t := range turns {
		gap := "-"
		if i > 0 {
			gaps = append(gaps, time.Duration(t.From-turns[i-1].To))
			gap = rounded(gaps[i-1])
		}
		at := time.Duration(t.From - turns[0].From).Round(time.Millisecond)
		fmt.Fprintf(out, "%10v  %-8d %-10d %8d %10s\n", at, t.Process, t.Goroutine, t.Asked, gap)
	}
	if slices.Sort(gaps); len(gaps) > 0 {
		fmt.Fprintf(out, "gap from one unlock to the next lock: median %s, most %s\n",
			rounded(gaps[len(gaps)/2]), rounded(gaps[len(gaps)-1]))
	}
	return out.String()
}

func rounded(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

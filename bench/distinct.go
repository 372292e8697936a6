package main

import (
	"fmt"
	"slices"
	"time"
)

// sideBySide are the libraries of read/write locks and of semaphores.
var sideBySide = slices.Concat(readWriteLibraries, []string{oursPermits, oursPermitsFair, handPermits})

// distinct is goroutines of one process, each with its own key, so none waits
// for another. More libraries than the usual ones may get it.
func distinct(goroutines int, more ...string) scenario {
	return scenario{
		name: fmt.Sprintf("distinct %d", goroutines), libraries: slices.Concat(withPeers(ours, oursAnew, oursReentrant),
			[]string{redsyncAnew}, more),
		load: load{
			Work: "count", Processes: 1, Goroutines: goroutines, Ramp: 150 * time.Millisecond, Duration: 600 * time.Millisecond,
		},
		figures: countFigures,
	}
}

var (
	distinct1    = distinct(1, sideBySide...)
	distinct64   = distinct(64, sideBySide...)
	distinct256  = distinct(256)
	distinct1024 = distinct(1024)
)

const (
	perSecond   = "pairs a second"
	allocations = "allocations a pair"
	slowest     = "slowest by median goroutine"
)

func countFigures(o outcome) (figures, error) {
	var counts []float64
	var pairs, perSecondOfAll float64
	var allocated uint64
	for _, r := range o.reports {
		for _, n := range r.Counts {
			counts = append(counts, float64(n))
			pairs += float64(n)
			perSecondOfAll += float64(n) / r.Time.Seconds()
		}
		allocated += r.Mallocs
	}
	return figures{}.
		add(perSecond, perSecondOfAll).
		add(allocations, float64(allocated)/max(pairs, 1)).
		add(neverWoken, stuck(o.reports)).
		add(slowest, slices.Min(counts)/max(median(counts), 1)), nil
}

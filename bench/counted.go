package main

import (
	"fmt"
	"slices"
	"time"
)

// sideBySide are the libraries of read/write locks and of semaphores.
var sideBySide = slices.Concat(readWriteLibraries, []string{oursPermits, oursPermitsFair, handPermits})

// counted is goroutines of one process, each with its own key, so that none
// waits for another. Their pairs are counted.
func counted(name string, goroutines int, libraries ...string) scenario {
	return scenario{
		name: name, libraries: libraries, figures: countFigures,
		load: load{
			Work: "count", Processes: 1, Goroutines: goroutines, Ramp: 150 * time.Millisecond, Duration: 600 * time.Millisecond,
		},
	}
}

// together is counted with one key, which so many may hold together.
func together(name string, goroutines, most int, hold time.Duration, libraries ...string) scenario {
	s := counted(name, goroutines, libraries...)
	s.load.OneKey, s.load.Together, s.load.Hold = true, most, hold
	s.load.Ramp, s.load.Duration = 200*time.Millisecond, time.Second
	return s
}

// distinct has more libraries than the usual ones.
func distinct(goroutines int, more ...string) scenario {
	usual := append(withPeers(ours, oursAnew, oursReentrant), redsyncAnew)
	return counted(fmt.Sprintf("distinct %d", goroutines), goroutines, append(usual, more...)...)
}

var (
	distinct1    = distinct(1, sideBySide...)
	distinct64   = distinct(64, sideBySide...)
	distinct256  = distinct(256)
	distinct1024 = distinct(1024)

	// oneKey is many goroutines that want the same key, and release it
	// immediately.
	oneKey = together("one key", 256, 1, 0, append(withPeers(ours, oursAnew, oursFair), redsyncAnew)...)
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

package main

import (
	"time"

	"github.com/aclements/go-moremath/stats"
)

// traced is processes that want one key again and again, and record when each
// lock was requested, granted and released.
func traced(name string, processes, goroutines int, hold time.Duration, libraries ...string) scenario {
	return scenario{
		name: name, libraries: libraries, figures: grantFigures,
		load: load{
			Work: "trace", Processes: processes, Goroutines: goroutines, OneKey: true, Hold: hold,
			Duration: 1500 * time.Millisecond,
		},
	}
}

var (
	// busy shows how long a lock takes, and whether every goroutine gets it.
	busy = traced("busy", 4, 4, time.Millisecond, withPeers(ours, oursFair)...)

	// think is busy with a pause between two turns of a goroutine. It shows for
	// how much of the time a goroutine has the lock.
	think = pausing(traced("think", 4, 4, time.Millisecond, withPeers(ours, oursFair)...), 5*time.Millisecond)

	// handOff measures from the call of Unlock in one process to the return of
	// Lock in the other.
	handOff = traced("hand-off", 2, 1, 2*time.Millisecond, withPeers(ours, oursFair)...)

	// reentrantKey is busy on reentrant locks. Goroutines of a process hand the
	// key to each other, and so do processes.
	reentrantKey = traced("reentrant key", 4, 4, time.Millisecond, oursReentrant, ours)
)

func pausing(s scenario, pause time.Duration) scenario {
	s.load.Think = pause
	return s
}

const (
	waitP50      = "wait p50"
	waitP99      = "wait p99"
	waitMax      = "wait max"
	turns        = "wait p99 by a round of all"
	evenness     = "fewest by most grants"
	inUse        = "time in use"
	perGrant     = "commands a grant"
	neverWoken   = "still waiting at the end"
	handOffTime  = "hand-off"
	handOffP99   = "hand-off p99"
	handOffPings = "hand-off by PING"
)

// grantFigures returns the figures of a trace. Times are in seconds.
func grantFigures(o outcome) (figures, error) {
	all := events(o.reports)
	if !exclusive(all) {
		return nil, errMore
	}
	if len(all) < 2 {
		return figures{}, nil
	}
	var waits, gaps, holds []float64
	for _, e := range all {
		waits = append(waits, seconds(e.Got-e.Asked))
		holds = append(holds, seconds(e.Gave-e.Got))
	}
	for _, gap := range handOffs(all) {
		gaps = append(gaps, gap.Seconds())
	}
	span := seconds(all[len(all)-1].Gave - all[0].Got)
	round := stats.Mean(holds) * float64(o.load.Processes*o.load.Goroutines)
	return figures{}.
		add(perSecond, float64(len(all))/span).
		add(waitP50, percentile(waits, 50)).
		add(waitP99, percentile(waits, 99)).
		add(waitMax, percentile(waits, 100)).
		add(turns, percentile(waits, 99)/round).
		add(evenness, fewestByMost(o.reports)).
		add(inUse, stats.Sample{Xs: holds}.Sum()/span).
		add(perGrant, float64(o.commands)/float64(len(all))).
		add(neverWoken, stuck(o.reports)).
		add(handOffTime, median(gaps)).
		add(handOffP99, percentile(gaps, 99)).
		add(handOffPings, median(gaps)/o.trip.Seconds()), nil
}

// fewestByMost returns the fewest grants of any goroutine, divided by the most.
func fewestByMost(reports []report) float64 {
	var counts []float64
	for _, r := range reports {
		for _, grants := range r.Grants {
			counts = append(counts, float64(len(grants)))
		}
	}
	return percentile(counts, 0) / max(percentile(counts, 100), 1)
}

func stuck(reports []report) (n float64) {
	for _, r := range reports {
		n += float64(r.Stuck)
	}
	return n
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }

package main

import "time"

// busy is four processes that want the key all the time. It shows how long a
// lock takes, and whether every goroutine gets it.
var busy = scenario{
	name: "busy", libraries: withPeers(ours, oursFair),
	load: load{
		Work: "trace", Processes: 4, Goroutines: 4, OneKey: true, Hold: time.Millisecond, Duration: 1500 * time.Millisecond,
	},
	figures: grantFigures,
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
	round := mean(holds) * float64(o.load.Processes*o.load.Goroutines)
	return figures{}.
		add(perSecond, float64(len(all))/span).
		add(waitP50, percentile(waits, 50)).
		add(waitP99, percentile(waits, 99)).
		add(waitMax, percentile(waits, 100)).
		add(turns, percentile(waits, 99)/round).
		add(evenness, fewestByMost(o.reports)).
		add(inUse, sum(holds)/span).
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

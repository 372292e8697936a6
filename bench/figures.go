package main

import (
	"slices"
	"time"
)

// figures are what a run comes to.
type figures struct {
	opsPerSecond  float64
	p50, p99, max time.Duration // of the wait
	hold          time.Duration // as measured, mean
	fewest, most  int           // grants of a goroutine
	use           float64       // share of the time in which somebody held the lock
	commands      float64       // of the server, for each grant
	handOff       time.Duration // from the call of Unlock in one process to the return of Lock in another, median
}

func percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)*p/100, len(times)-1)]
}

func figuresOf(results []result, commands int64) figures {
	var f figures
	var waits []time.Duration
	var held, first, last int64
	f.fewest = len(results[0].Grants)
	for _, r := range results {
		f.fewest, f.most = min(f.fewest, len(r.Grants)), max(f.most, len(r.Grants))
		for _, g := range r.Grants {
			waits = append(waits, time.Duration(g.Got-g.Asked))
			held += g.Gave - g.Got
			if first == 0 || g.Got < first {
				first = g.Got
			}
			last = max(last, g.Gave)
		}
	}
	n := len(waits)
	f.p50, f.p99, f.max = percentile(waits, 50), percentile(waits, 99), percentile(waits, 100)
	span := time.Duration(last - first)
	f.opsPerSecond = float64(n) / span.Seconds()
	f.hold = time.Duration(held / int64(max(n, 1)))
	f.use = float64(held) / float64(span)
	f.commands = float64(commands) / float64(max(n, 1))
	f.handOff = handOff(results)
	return f
}

// handOff is the median time between an unlock and the next lock, where that is in another process and was asked for before.
func handOff(results []result) time.Duration {
	type event struct {
		grant
		process int
	}
	var events []event
	for _, r := range results {
		for _, g := range r.Grants {
			events = append(events, event{g, r.Process})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return int(a.Got - b.Got) })
	var gaps []time.Duration
	for i := 1; i < len(events); i++ {
		before, after := events[i-1], events[i]
		if before.process != after.process && after.Asked < before.Gave {
			gaps = append(gaps, time.Duration(after.Got-before.Gave))
		}
	}
	return percentile(gaps, 50)
}

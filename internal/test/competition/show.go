package competition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Show returns a table of the turns in their order, each with the time since
// the previous one ended.
func Show(mode, place string, turns []Turn) string {
	out := &strings.Builder{}
	fmt.Fprintf(out, "\n%s: %d processes x %d goroutines\n", mode, Processes, Goroutines)
	fmt.Fprintf(out, "%10s  %-8s %-10s %8s %10s%s\n", "at", "process", "goroutine", "asked as", "gap", column(place, place))
	asked := arrivals(turns)
	for i, t := range turns {
		gap := "-"
		if i > 0 {
			gap = rounded(time.Duration(t.From - turns[i-1].To))
		}
		at := time.Duration(t.From - turns[0].From).Round(time.Millisecond)
		fmt.Fprintf(out, "%10v  %-8d %-10d %8d %10s%s\n", at, t.Process, t.Goroutine, asked[i], gap, column(place, t.Place))
	}
	if len(turns) > 1 {
		all := gaps(turns)
		fmt.Fprintf(out, "gap from one unlock to the next lock: median %s, most %s\n", rounded(all[len(all)/2]), rounded(all[len(all)-1]))
	}
	return out.String()
}

// column returns a cell of the column, or "" without a heading.
func column(heading string, value any) string {
	if heading == "" {
		return ""
	}
	return fmt.Sprintf("  %v", value)
}

func rounded(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

// arrivals returns for each turn its number in the order of requests, from 1.
func arrivals(turns []Turn) []int {
	order := make([]int, len(turns))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(turns[a].Asked, turns[b].Asked) })
	as := make([]int, len(turns))
	for n, i := range order {
		as[i] = n + 1
	}
	return as
}

// gaps returns the times between turns, the shortest first.
func gaps(turns []Turn) (all []time.Duration) {
	for i, t := range turns[1:] {
		all = append(all, time.Duration(t.From-turns[i].To))
	}
	slices.Sort(all)
	return all
}

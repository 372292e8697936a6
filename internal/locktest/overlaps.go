package locktest

import "slices"

// Span is a time in which a hold was valid. Its ends are by one clock.
type Span struct{ From, Until int64 }

// Overlaps returns the pairs of holds that were valid at the same time. For
// each hold it is the one before it that was valid for longest. A hold that was
// never valid overlaps with none.
func Overlaps[S any](holds []S, span func(S) Span) (pairs [][2]S) {
	byStart := slices.Clone(holds)
	slices.SortStableFunc(byStart, func(a, b S) int { return int(span(a).From - span(b).From) })
	last := 0 // the one that is valid for longest
	for i := 1; i < len(byStart); i++ {
		one, longest := span(byStart[i]), span(byStart[last])
		if one.Until <= one.From {
			continue
		}
		if one.From < longest.Until {
			pairs = append(pairs, [2]S{byStart[last], byStart[i]})
		}
		if one.Until > longest.Until {
			last = i
		}
	}
	return pairs
}

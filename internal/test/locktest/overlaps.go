package locktest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

// RequireRate checks that no more than limit of the times, in microseconds and
// in their order, are within d, and that there are more than that.
func RequireRate(t testing.TB, at []int64, limit int, d time.Duration) {
	t.Helper()
	require.Greater(t, len(at), limit)
	for i := limit; i < len(at); i++ {
		require.GreaterOrEqual(t, at[i]-at[i-limit], d.Microseconds(), "number %d", i)
	}
}

// MostTogether returns how many of the holds were valid at the same time, at
// most.
func MostTogether(holds []Span) (most int) {
	type change struct {
		at int64
		by int
	}
	var changes []change
	for _, h := range holds {
		if h.From < h.Until {
			changes = append(changes, change{h.From, 1}, change{h.Until, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	now := 0
	for _, c := range changes {
		now += c.by
		most = max(most, now)
	}
	return most
}

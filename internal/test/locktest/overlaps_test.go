package locktest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each hold is compared with the one that is valid for longest, also if others
// came in between.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	span := func(s Span) Span { return s }
	for _, tt := range []struct {
		holds []Span
		want  [][2]Span
	}{
		{nil, nil},
		{[]Span{{5, 9}, {0, 5}}, nil},
		{[]Span{{0, 5}, {4, 9}}, [][2]Span{{{0, 5}, {4, 9}}}},
		{[]Span{{0, 5}, {3, 3}, {3, 2}}, nil},
		{[]Span{{6, 7}, {0, 9}, {1, 2}}, [][2]Span{{{0, 9}, {1, 2}}, {{0, 9}, {6, 7}}}},
	} {
		require.Equal(t, tt.want, Overlaps(tt.holds, span))
	}
}

// Holds that meet are not together, nor is one that was never valid.
func TestMostTogether(t *testing.T) {
	t.Parallel()
	for most, holds := range map[int][]Span{
		0: {{3, 3}, {3, 2}},
		1: {{0, 5}, {5, 9}, {9, 10}},
		2: {{0, 5}, {4, 9}, {5, 8}},
		3: {{0, 9}, {1, 9}, {2, 3}, {3, 4}},
	} {
		require.Equal(t, most, MostTogether(holds))
	}
}

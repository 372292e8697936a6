package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		first := tt.values[0]
		require.Equal(t, tt.want, median(tt.values))
		require.Equal(t, first, tt.values[0], "the argument is sorted")
	}
	require.True(t, math.IsNaN(median(nil)))
}

func TestPercentile(t *testing.T) {
	values := []float64{5, 4, 3, 2, 1, 6, 7, 8, 9, 10}
	for p, want := range map[float64]float64{0: 1, 50: 5.5, 99: 10, 100: 10} {
		require.Equal(t, want, percentile(values, p), "%v", p)
	}
	require.True(t, math.IsNaN(percentile(nil, 50)))
}

func TestMediansAreOfEachFigureByItself(t *testing.T) {
	r := results{Figures: map[string]map[string][]figures{"load": {ours: {
		{"speed": 1, "wait": 30},
		{"speed": 3, "wait": 10},
		{"speed": 2},
	}}}}
	for figure, want := range map[string]string{"speed": "2 (1..3)", "wait": "20 (10..30)", "lost": ""} {
		got, _ := r.cell("load", ours, figure, count)
		require.Equal(t, want, got, "%s, of the runs that saw it", figure)
	}
	_, ok := r.of("load", ours, "lost")
	require.False(t, ok, "a figure that no run saw has a median")
}

func TestAdvantage(t *testing.T) {
	require.EqualValues(t, 2, advantage(100, 50, false))
	require.EqualValues(t, 0.5, advantage(10, 5, true))
}

func TestCheckOfFigures(t *testing.T) {
	for name, tt := range map[string]struct {
		figures figures
		ok      bool
	}{
		"all there":         {figures{"speed": 1, "share": 0}, true},
		"the needed one 0":  {figures{"speed": 0, "share": 1}, false},
		"the needed absent": {figures{"share": 1}, false},
		"another absent":    {figures{"speed": 1}, false},
		"negative":          {figures{"speed": 1, "share": -0.1}, false},
		"infinite":          {figures{"speed": math.Inf(1), "share": 1}, false},
	} {
		require.Equal(t, tt.ok, tt.figures.check("speed", "share") == nil, name)
	}
	require.Empty(t, figures{}.add("never seen", math.NaN()))
}

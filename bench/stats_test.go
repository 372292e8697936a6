package main

import (
	"math"
	"slices"
	"testing"
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
		given := slices.Clone(tt.values)
		if got := median(tt.values); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", given, got, tt.want)
		}
		if !slices.Equal(given, tt.values) {
			t.Errorf("median has sorted its argument: %v", tt.values)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing = %v, want NaN", got)
	}
}

func TestPercentile(t *testing.T) {
	values := []float64{5, 4, 3, 2, 1, 6, 7, 8, 9, 10}
	for p, want := range map[int]float64{0: 1, 50: 6, 90: 10, 99: 10, 100: 10} {
		if got := percentile(values, p); got != want {
			t.Errorf("percentile(%d) = %v, want %v", p, got, want)
		}
	}
	if got := percentile(nil, 50); !math.IsNaN(got) {
		t.Errorf("percentile of nothing = %v, want NaN", got)
	}
}

func TestMediansAreOfEachFigureByItself(t *testing.T) {
	r := results{Figures: map[string]map[string][]figures{"load": {ours: {
		{"speed": 1, "wait": 30},
		{"speed": 3, "wait": 10},
		{"speed": 2},
	}}}}
	for figure, want := range map[string]string{"speed": "2 (1..3)", "wait": "20 (10..30)", "lost": ""} {
		if got, _ := r.cell("load", ours, figure, count); got != want {
			t.Errorf("%s = %q, want %q, of the runs that saw it", figure, got, want)
		}
	}
	if _, ok := r.of("load", ours, "lost"); ok {
		t.Error("a figure that no run saw has a median")
	}
}

func TestAdvantage(t *testing.T) {
	if got := advantage(100, 50, false); got != 2 {
		t.Errorf("100 against 50 where more is better: %v, want 2", got)
	}
	if got := advantage(10, 5, true); got != 0.5 {
		t.Errorf("10 against 5 where less is better: %v, want 0.5", got)
	}
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
		if err := tt.figures.check("speed", "share"); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f := (figures{}).add("never seen", math.NaN()); len(f) != 0 {
		t.Errorf("a figure that was not seen is there: %v", f)
	}
}

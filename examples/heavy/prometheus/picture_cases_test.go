package main

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A quantile is where histogram_quantile of Prometheus has it.
func TestHistogramQuantile(t *testing.T) {
	t.Parallel()
	infinite := math.Inf(1)
	known := []bucket{{1, 40}, {.5, 20}, {2, 80}, {4, 100}, {infinite, 100}}
	for q, want := range map[float64]float64{.1: .25, .2: .5, .3: .75, .5: 1.25, .8: 2, .9: 3, .99: 3.9, 1: 4} {
		require.InDelta(t, want, histogramQuantile(q, known), 1e-9, q)
	}
	above := []bucket{{1, 5}, {2, 6}, {infinite, 10}}
	require.InDelta(t, 2, histogramQuantile(.9, above), 0, "above the last bound")
	empty := []bucket{{1, 0}, {2, 10}, {infinite, 10}}
	require.InDelta(t, 1.5, histogramQuantile(.5, empty), 1e-9, "the first bucket is empty")
	for _, none := range [][]bucket{nil, {{infinite, 3}}, {{1, 0}, {infinite, 0}}, {{1, 3}, {2, 3}}} {
		require.True(t, math.IsNaN(histogramQuantile(.5, none)), none)
	}
}

// moment returns a scrape of processes that each have two buckets, of which the
// second one counts twice as much.
func moment(second int, values map[string]float64) scrape {
	s := scrape{at: time.Duration(second) * time.Second}
	for instance, value := range values {
		for i, le := range []string{"1", "+Inf"} {
			labels := map[string]string{"instance": instance, "le": le, "kind": "k"}
			s.samples = append(s.samples, sample{"a", labels, float64(i+1) * value})
		}
	}
	return s
}

// A rate is the increase of each series within the window. A process that is
// new, or was killed, counts for as long as two of its samples are there. Its
// gauges count in its last scrape only.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	window := []scrape{
		moment(0, map[string]float64{"1": 10, "2": 5}),
		moment(1, map[string]float64{"1": 12, "2": 9}),
		moment(2, map[string]float64{"1": 16, "3": 7}),
		moment(4, map[string]float64{"1": 3, "3": 11}), // the first one has restarted
	}
	for expr, want := range map[string]float64{
		`sum(a{job=~"$job"})`:                         42,
		`max by (kind) (a{job=~"$job"})`:              22,
		`sum(rate(a{job=~"$job"}[$__rate_interval]))`: 3 * (9./4 + 4 + 4./2),
		`histogram_quantile(0.25, sum by (le) (rate(a{job=~"$job", kind=~"$kind"}[$__rate_interval])))`: .5,
	} {
		q, err := parseQuery(expr)
		require.NoError(t, err)
		got := q.evaluate(window)
		require.Len(t, got, 1, expr)
		require.InDelta(t, want, got[0].value, 1e-9, expr)
	}
	q, err := parseQuery(`sum by (instance) (rate(a{job=~"$job"}[$__rate_interval]))`)
	require.NoError(t, err)
	require.Len(t, q.evaluate(window), 3)
	require.Len(t, q.evaluate(window[:2]), 2)
	require.Empty(t, q.evaluate(window[:1]))
}

// An expression that the picture would show wrongly is refused.
func TestParseQuery(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{
		`a`, `sum(a{kind="b"})`, `sum(a) / sum(b)`, `avg(a{job=~"$job"})`,
		`sum(increase(a{job=~"$job"}[$__rate_interval]))`, `sum(rate(a{job=~"$job"}[5m]))`,
	} {
		_, err := parseQuery(wrong)
		require.Error(t, err, wrong)
	}
}

// A line has a gap where there is no value, and an axis has few steps. Text is
// escaped.
func TestDraw(t *testing.T) {
	t.Parallel()
	values := []float64{1, 2, math.NaN(), 0}
	p := picture{[]float64{0, 1, 2, 4}, []mark{{2, "a & b"}}, []chart{{"<title>", "s", []line{{"p50", values}}}}}
	svg := p.draw()
	for _, part := range []string{
		`d="M40.0 98.0L134.0 38.0M416.0 158.0"`, ">&lt;title&gt;</text>", "1: a &amp; b.",
		">s</text>", ">p50</text>", ">2.0</text>",
	} {
		require.Contains(t, svg, part)
	}
	for most, want := range map[float64][2]float64{
		0: {1, 1}, .003: {.0005, 6}, 2: {.5, 4}, 2.4: {.5, 5}, 97: {20, 5}, 130: {50, 3},
	} {
		step, steps := scale(most)
		require.InDelta(t, want[0], step, 1e-9, most)
		require.InDelta(t, want[1], steps, 0, most)
	}
	require.Equal(t, "0.05", number(.05, .05))
	require.Equal(t, "200", number(200, 100))
}

package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// query is an expression of the dashboard that the picture can show: the sum or
// the maximum of a gauge or of a rate, and quantiles of it.
type query struct {
	quantile float64 // of a histogram; 0 for none
	isMax    bool
	isRate   bool
	by       []string
	metric   string
}

var (
	expression = regexp.MustCompile(`^(?:histogram_quantile\(([\d.]+), )?(sum|max)(?: by \(([\w, ]+)\) )?` +
		`\((rate\()?(\w+)\{([^{}]*)\}(?:\[\$__rate_interval\])?\)+$`)
	selectsAll  = regexp.MustCompile(`^(?:\w+=~"\$\w+"(?:, )?)*$`) // as all variables are "All"
	placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

func parseQuery(expr string) (q query, err error) {
	found := expression.FindStringSubmatch(expr)
	if found == nil || !selectsAll.MatchString(found[6]) {
		return q, fmt.Errorf("the picture cannot evaluate %s", expr)
	}
	q = query{isMax: found[2] == "max", isRate: found[4] != "", metric: found[5]}
	if found[3] != "" {
		q.by = strings.Split(found[3], ", ")
	}
	if found[1] != "" {
		q.quantile, err = strconv.ParseFloat(found[1], 64)
	}
	return q, err
}

// scrape is what all processes have answered at one moment of a run.
type scrape struct {
	at      time.Duration
	samples []sample
}

// evaluate returns the result at the end of a window of scrapes.
func (q query) evaluate(window []scrape) []sample {
	values := latest(window, q.metric)
	if q.isRate {
		values = rates(window, q.metric)
	}
	values = q.aggregate(values)
	if q.quantile > 0 {
		values = quantiles(q.quantile, values)
	}
	return values
}

// latest returns the samples of a metric in the last scrape. A process that was
// killed has none.
func latest(window []scrape, metric string) (all []sample) {
	for _, one := range window[len(window)-1].samples {
		if one.name == metric {
			all = append(all, one)
		}
	}
	return all
}

// series is a counter of one process, from its first to its last sample.
type series struct {
	sample
	began, last time.Duration
	increase    float64
}

// add adds the next sample. A counter that falls began again at zero.
func (s *series) add(value float64, at time.Duration) {
	if value < s.value {
		s.value = 0
	}
	s.increase += value - s.value
	s.value, s.last = value, at
}

// rates returns the increase per second of each series, between its first and
// its last sample in the window.
func rates(window []scrape, metric string) (all []sample) {
	known := map[string]*series{}
	for i, moment := range window {
		for _, one := range latest(window[:i+1], metric) {
			key := fmt.Sprint(one.labels)
			if known[key] == nil {
				known[key] = &series{one, moment.at, moment.at, 0}
			}
			known[key].add(one.value, moment.at)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		if s := known[key]; s.last > s.began {
			all = append(all, sample{metric, s.labels, s.increase / (s.last - s.began).Seconds()})
		}
	}
	return all
}

// aggregate returns the sum or the maximum of the values of each group.
func (q query) aggregate(values []sample) []sample {
	groups := map[string]*sample{}
	for _, one := range values {
		labels := map[string]string{}
		for _, key := range q.by {
			labels[key] = one.labels[key]
		}
		group := groups[fmt.Sprint(labels)]
		switch {
		case group == nil:
			groups[fmt.Sprint(labels)] = &sample{q.metric, labels, one.value}
		case q.isMax:
			group.value = max(group.value, one.value)
		default:
			group.value += one.value
		}
	}
	return sorted(groups)
}

func sorted(groups map[string]*sample) (all []sample) {
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, *groups[key])
	}
	return all
}

// bucket is how much is at most as large as a bound.
type bucket struct{ bound, count float64 }

// quantiles returns the quantile of the buckets of each group.
func quantiles(q float64, values []sample) (all []sample) {
	groups, buckets := map[string]*sample{}, map[string][]bucket{}
	for _, one := range values {
		labels := maps.Clone(one.labels)
		delete(labels, "le")
		key := fmt.Sprint(labels)
		bound, err := strconv.ParseFloat(one.labels["le"], 64)
		if err != nil {
			continue // as Prometheus does
		}
		groups[key] = &sample{name: one.name, labels: labels}
		buckets[key] = append(buckets[key], bucket{bound, one.value})
	}
	for key, group := range groups {
		group.value = histogramQuantile(q, buckets[key])
	}
	return sorted(groups)
}

// histogramQuantile does what histogram_quantile of Prometheus does with
// buckets that count what is at most as large as their bound: in the bucket
// that has the quantile, values are taken to be evenly spread.
func histogramQuantile(q float64, buckets []bucket) float64 {
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	last := len(buckets) - 1
	if last < 1 || !math.IsInf(buckets[last].bound, 1) || buckets[last].count == 0 {
		return math.NaN()
	}
	rank := q * buckets[last].count
	at := slices.IndexFunc(buckets, func(b bucket) bool { return b.count >= rank })
	if at == last {
		return buckets[last-1].bound // which is all that is known
	}
	below := bucket{} // a duration is not negative
	if at > 0 {
		below = buckets[at-1]
	}
	return below.bound + (buckets[at].bound-below.bound)*(rank-below.count)/(buckets[at].count-below.count)
}

package main

import (
	"fmt"
	"math"
	"os"
	"time"
)

// results are the figures of all runs, and the machine on which they were
// taken.
type results struct {
	Machine machine
	Load    string // of the machine, before and after
	Runs    int
	Figures map[string]map[string][]figures // of each run, by scenario and library
}

// all returns a figure of the runs that measured it.
func (r results) all(scenario, library, figure string) (values []float64) {
	for _, f := range r.Figures[scenario][library] {
		if value, ok := f[figure]; ok {
			values = append(values, value)
		}
	}
	return values
}

// of returns the median of a figure, and reports whether there is one.
func (r results) of(scenario, library, figure string) (float64, bool) {
	value := median(r.all(scenario, library, figure))
	return value, !math.IsNaN(value)
}

// cell returns the median of a figure with the range of its runs, and reports
// whether there is one.
func (r results) cell(scenario, library, figure string, format unit) (string, bool) {
	values := r.all(scenario, library, figure)
	if len(values) == 0 {
		return "", false
	}
	return spread(format, values), true
}

// compare runs each scenario several times. Libraries take turns within a
// scenario, and each is first at times, so that a noisy moment does not hit all
// runs of one library.
func compare(all []scenario, runs int) (results, error) {
	m, err := describe()
	r := results{Machine: m, Runs: runs, Figures: map[string]map[string][]figures{}}
	if err != nil {
		return r, err
	}
	before := loadAverage()
	for _, s := range all {
		start := time.Now()
		if r.Figures[s.name], err = s.compare(runs); err != nil {
			return r, err
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %v\n", s.name, time.Since(start).Round(time.Second))
	}
	r.Load = fmt.Sprintf("Load average %s before and %s after", before, loadAverage())
	return r, nil
}

// compare returns the figures of each run, by library.
func (s scenario) compare(runs int) (map[string][]figures, error) {
	if s.outside != nil {
		return s.elsewhere(runs)
	}
	turns := s.turns(runs)
	measured := make([]figures, len(turns))
	measure := func(i int) (err error) {
		measured[i], err = s.measure(turns[i])
		return err
	}
	err := s.each(len(turns), measure)
	all := map[string][]figures{}
	for i, library := range turns {
		all[library] = append(all[library], measured[i])
	}
	return all, err
}

// turns returns which library each run is of.
func (s scenario) turns(runs int) (turns []string) {
	for n := range runs {
		first := n % len(s.libraries)
		turns = append(append(turns, s.libraries[first:]...), s.libraries[:first]...)
	}
	return turns
}

// each calls f for each run: in turn, or side by side if a run only waits.
func (s scenario) each(runs int, f func(i int) error) error {
	if s.waits {
		return inParallel(runs, f)
	}
	for i := range runs {
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

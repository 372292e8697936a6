package main

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// results are the medians of all figures, and the machine on which they were
// taken.
type results struct {
	Machine machine
	Runs    int
	Figures map[string]map[string]figures // by scenario and library
	Load    string                        // of the machine, before and after

	runs map[string]map[string][]figures // of all runs
}

// of returns a figure, and reports whether there is one.
func (r results) of(scenario, library, figure string) (float64, bool) {
	value, ok := r.Figures[scenario][library][figure]
	return value, ok
}

// compare runs each scenario several times. Libraries take turns within a
// scenario, so that a noisy moment does not hit all runs of one library.
func compare(all []scenario, libs []string, runs int) (results, error) {
	m, err := describe()
	r := results{Machine: m, Runs: runs, Figures: map[string]map[string]figures{}, runs: map[string]map[string][]figures{}}
	if err != nil {
		return r, err
	}
	before := loadAverage()
	for _, s := range all {
		start := time.Now()
		if r.runs[s.name], err = s.compare(libs, runs); err != nil {
			return r, err
		}
		r.Figures[s.name] = map[string]figures{}
		for library, runs := range r.runs[s.name] {
			r.Figures[s.name][library] = medians(runs)
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %v\n", s.name, time.Since(start).Round(time.Second))
	}
	r.Load = fmt.Sprintf("Load average %s before and %s after", before, loadAverage())
	return r, nil
}

// compare returns the figures of each run, by library.
func (s scenario) compare(libs []string, runs int) (map[string][]figures, error) {
	all := map[string][]figures{}
	for range runs {
		for _, library := range s.libraries {
			if !slices.Contains(libs, library) {
				continue
			}
			f, err := s.measure(library)
			if err != nil {
				return nil, err
			}
			all[library] = append(all[library], f)
		}
	}
	return all, nil
}

package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	var err error
	if text := os.Getenv(childVariable); text != "" {
		err = child(text)
	} else {
		err = parse().run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are the options of the command line.
type settings struct {
	libs      []string
	scenarios *regexp.Regexp // to run; nil means all
	runs      int
	smoke     bool
	queues    bool
	out       string
	into      []string
}

func parse() settings {
	libs := flag.String("libs", strings.Join(knownLibraries(), ","), "libraries to compare")
	runs := flag.Int("runs", 5, "runs, of which the medians count")
	smoke := flag.Bool("smoke", false, "run everything once and for a moment, to see that it runs")
	out := flag.String("out", "", "folder for the tables, the plot and all figures")
	into := flag.String("into", "", "files to put the main tables into, between their marks")
	queues := flag.Bool("queues", false, "compare task queues")
	var only *regexp.Regexp
	flag.Func("run", "run the scenarios whose names this regexp matches; unless it is \".\", "+
		"figures are only printed", func(text string) (err error) {
		only, err = regexp.Compile(text)
		return err
	})
	flag.Parse()
	s := settings{libs: strings.Split(*libs, ","), runs: *runs, smoke: *smoke, queues: *queues, out: *out}
	if only != nil && only.String() != "." {
		s.scenarios, s.out, *into = only, "", ""
	}
	if *into != "" {
		s.into = strings.Split(*into, ",")
	}
	return s
}

func (s settings) run() error {
	chosen, err := s.chosen()
	if err != nil {
		return err
	}
	if s.smoke {
		return smoke(chosen, s.libs)
	}
	r, err := compare(chosen, s.libs, s.runs)
	if err != nil {
		return err
	}
	if s.queues {
		fmt.Print(taskPage(r))
		return s.insert(taskPage(r))
	}
	fmt.Print(page(r, false))
	return s.write(r)
}

// smoke runs everything once. Its figures mean nothing, but none may be
// missing, as in every run.
func smoke(chosen []scenario, libs []string) error {
	for i := range chosen {
		chosen[i] = chosen[i].short()
	}
	r, err := compare(chosen, libs, 1)
	if err != nil {
		return err
	}
	fmt.Printf("%d scenarios ran with all their libraries; %d bytes of tables, %d of plot\n",
		len(chosen), len(page(r, false))+len(taskPage(r)), len(plot(panels(tables, r))))
	return nil
}

// knownLibraries returns the names of all libraries.
func knownLibraries() []string {
	return slices.Concat(slices.Sorted(maps.Keys(libraries)), bothQueues, onEtcd.libraries)
}

// chosen returns the scenarios to run. It fails if a name is unknown.
func (s settings) chosen() ([]scenario, error) {
	for _, name := range s.libs {
		if !slices.Contains(knownLibraries(), name) {
			return nil, fmt.Errorf("no library %q", name)
		}
	}
	all := slices.Clone(scenarios)
	switch {
	case s.smoke:
		all = append(all, taskScenarios...)
	case s.queues:
		all = slices.Clone(taskScenarios)
	}
	if s.scenarios != nil {
		all = slices.DeleteFunc(all, func(known scenario) bool { return !s.scenarios.MatchString(known.name) })
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no scenario %s", s.scenarios)
	}
	return all, nil
}

// write saves the results as the command line requests.
func (s settings) write(r results) (err error) {
	if s.out != "" {
		err = save(s.out, r)
	}
	return errors.Join(err, s.insert(page(r, true)))
}

// insert puts the tables into the files of the command line.
func (s settings) insert(tables string) (err error) {
	for _, path := range s.into {
		err = errors.Join(err, insert(path, tables))
	}
	return err
}

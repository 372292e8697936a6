package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
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
	scenarios *regexp.Regexp // to run; nil and "." mean all
	runs      int
	smoke     bool
	queues    bool
	out       string
	into      string
}

func parse() (s settings) {
	flag.IntVar(&s.runs, "runs", 5, "runs, of which the medians count")
	flag.BoolVar(&s.smoke, "smoke", false, "run everything once and for a moment, to see that it runs")
	flag.StringVar(&s.out, "out", "", "folder for the tables, the plot and all figures")
	flag.StringVar(&s.into, "into", "", "file to put the main tables into, between its marks")
	flag.BoolVar(&s.queues, "queues", false, "compare task queues")
	flag.Func("run", "run the scenarios whose names this regexp matches; unless it is \".\", "+
		"figures are only printed", func(text string) (err error) {
		s.scenarios, err = regexp.Compile(text)
		return err
	})
	flag.Parse()
	if s.scenarios != nil && s.scenarios.String() != "." {
		s.out, s.into = "", ""
	}
	return s
}

func (s settings) run() error {
	chosen, err := s.chosen()
	if err != nil {
		return err
	}
	if s.smoke {
		return smoke(chosen)
	}
	r, err := compare(chosen, s.runs)
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
func smoke(chosen []scenario) error {
	for i := range chosen {
		chosen[i] = chosen[i].short()
	}
	r, err := compare(chosen, 1)
	if err != nil {
		return err
	}
	svg, err := drawn(tables, r)
	fmt.Printf("%d scenarios ran with all their libraries; %d bytes of tables, %d of plot\n",
		len(chosen), len(page(r, false))+len(taskPage(r)), len(svg))
	return err
}

// chosen returns the scenarios to run. It fails if there are none.
func (s settings) chosen() ([]scenario, error) {
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

// insert puts the tables into the file of the command line.
func (s settings) insert(tables string) error {
	if s.into == "" {
		return nil
	}
	return insert(s.into, tables)
}

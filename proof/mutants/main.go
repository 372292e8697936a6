// Command mutants puts faults into the code, one at a time, and checks that a
// test fails because of each. A fault that no test finds is a gap in the tests.
// No file is changed: the faults go into the build.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/relock-go/relock/proof/internal/testbinary"
)

func main() {
	only := flag.String("run", "", "run the mutants whose names match this regexp")
	var changed map[string]bool
	flag.Func("touched", "run those whose diff, file, or test's file is one of these `files`", func(files string) error {
		changed = map[string]bool{}
		for name := range strings.FieldsSeq(files) {
			changed[name] = true
		}
		return nil
	})
	most := flag.Int("most", 0, "run at most this many, drawn at random")
	seed := flag.Uint64("seed", rand.Uint64N(1_000_000), "of what is drawn")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err == nil {
		err = tryChosen(choice{pattern, changed, *most, *seed})
	}
	switch {
	case errors.Is(err, testbinary.ErrNoServer) && os.Getenv("CI") == "":
		fmt.Fprintln(os.Stderr, "skipped:", err)
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func tryChosen(c choice) error {
	root, err := testbinary.Root()
	if err != nil {
		return err
	}
	all, err := load(root)
	if err != nil {
		return err
	}
	mutants, why, err := c.from(root, all)
	if err != nil {
		return err
	}
	fmt.Println(why)
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	env, err := testbinary.Environment()
	if err != nil {
		return err
	}
	start := time.Now()
	b, err := newBench(root, dir, env, mutants)
	if err != nil {
		return err
	}
	built := time.Now()
	if err := b.unchanged(mutants); err != nil {
		return err
	}
	passed := time.Now()
	results := tryAll(b, mutants)
	fmt.Printf("the build took %.0fs, the tests without a fault %.0fs, those with one %.0fs\n",
		built.Sub(start).Seconds(), passed.Sub(built).Seconds(), time.Since(passed).Seconds())
	return report(results)
}

// tryAll returns the results in the order of the mutants.
func tryAll(b bench, mutants []mutant) []result {
	results := make([]result, len(mutants))
	together(len(mutants), func(i int) { results[i] = b.try(mutants[i]) })
	return results
}

// together runs f for each number below n, several at a time per processor, as
// tests wait a lot.
func together(n int, f func(i int)) {
	slots := make(chan struct{}, 3*runtime.NumCPU())
	var group sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	group.Wait()
}

// report prints the results, and fails when a mutant was not caught.
func report(results []result) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	missed := 0
	for _, r := range results {
		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t%.1fs\n", r.name, r.test, r.verdict, r.took.Seconds())
		if r.verdict != caught {
			missed++
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.verdict != caught {
			fmt.Printf("\n%s: %s: %s\n%s\n", r.verdict, r.name, r.rule, tail(r.output))
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d were not caught", missed, len(results))
	}
	fmt.Printf("all %d were caught\n", len(results))
	return nil
}

// tail is the end of a long output.
func tail(text string) string {
	const most = 4000
	return text[max(0, len(text)-most):]
}

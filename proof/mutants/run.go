package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/proof/internal/testbinary"
)

// These are the results of a mutant. Only a failure of its test counts as
// caught, since a panic or a timeout may have other causes.
const (
	caught       = "caught"
	survived     = "SURVIVED"
	doesNotApply = "does not apply"
	doesNotBuild = "does not build"
	otherFailure = "failed otherwise"
)

// result is what came of one mutant.
type result struct {
	mutant
	verdict string
	output  string // of a run that caught nothing
	took    time.Duration
}

// bench runs tests.
type bench struct {
	root     string
	env      []string
	binaries map[string]string // the tests by their folder, of the code as it is while no fault is chosen
	merged   map[string]bool   // the faults that are in one of them
}

func newBench(root, dir string, mutants []mutant) (b bench, err error) {
	if b.env, err = testbinary.Environment(); err != nil {
		return b, err
	}
	b.root = root
	b.binaries, b.merged = map[string]string{}, map[string]bool{}
	return b, b.prepare(mutants, dir)
}

// prepare builds the tests of all folders, with all faults that can be merged.
// In one build each package is compiled once for all folders.
func (b bench) prepare(mutants []mutant, dir string) error {
	changed, merged, err := merge(b.root, mutants)
	if err != nil {
		return err
	}
	built, err := b.build(changed, dir, folders(mutants)...)
	maps.Copy(b.merged, merged)
	maps.Copy(b.binaries, built)
	return err
}

// folders are those of the tests that the mutants name, each once.
func folders(mutants []mutant) []string {
	var all []string
	for _, m := range mutants {
		all = append(all, m.in)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// testLimit is the time that the test of one mutant may take, and buildLimit
// that of a build.
const (
	testLimit  = 60 * time.Second
	buildLimit = 10 * time.Minute // of a server of etcd that was never built before
)

// unchanged runs the tests without a fault, in parallel like those of the
// mutants. If one failed without a fault, or did not run, its failure would
// prove nothing.
func (b bench) unchanged(mutants []mutant) error {
	tests := distinct(mutants)
	errs := make([]error, len(tests))
	together(len(tests), func(i int) { errs[i] = b.passes(tests[i]) })
	return errors.Join(errs...)
}

// distinct are mutants of which each has another test.
func distinct(mutants []mutant) []mutant {
	seen := map[mutant]bool{}
	return slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool {
		test := mutant{in: m.in, test: m.test}
		found := seen[test]
		seen[test] = true
		return found
	})
}

// passes says what is wrong with a test that does not pass.
func (b bench) passes(m mutant) error {
	out, err := b.test(run{in: m.in, binary: b.binaries[m.in], pattern: m.pattern(), limit: testLimit, flag: "-test.v"})
	switch {
	case err != nil:
		return fmt.Errorf("%s fails without a fault: %w\n%s", m.test, err, tail(out))
	case !strings.Contains(out, "--- PASS: "+m.function()+" ("):
		return fmt.Errorf("%s did not run", m.test)
	}
	return nil
}

// try runs the mutant's test with the fault in the code.
func (b bench) try(m mutant) result {
	start := time.Now()
	verdict, output := b.verdict(m)
	return result{m, verdict, output, time.Since(start)}
}

func (b bench) verdict(m mutant) (verdict, output string) {
	old, text, err := m.apply(b.root)
	if err != nil {
		return doesNotApply, err.Error()
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return otherFailure, err.Error()
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	binary, err := b.mutated(m, old, text, dir)
	if err != nil {
		return doesNotBuild, err.Error()
	}
	for range runs {
		out, err := b.test(run{m.in, binary, m.pattern(), m.name, testLimit, "-test.failfast"})
		verdict, output = judge(m.function(), out, err), fmt.Sprintf("%s\n%v", out, err)
		if verdict == caught {
			break
		}
	}
	return verdict, output
}

// runs is how often a test may run, since a fault that depends on a race
// survives some runs.
const runs = 3

// mutated is the test binary that has the fault, or lets it be chosen.
func (b bench) mutated(m mutant, old, text, dir string) (binary string, err error) {
	switch {
	case m.inScript():
		binary = filepath.Join(dir, "relock.test")
		return binary, testbinary.PatchScript(b.binaries[m.in], old, text, binary)
	case b.merged[m.name]:
		return b.binaries[m.in], nil
	}
	built, err := b.build(map[string]string{m.file: text}, dir, m.in)
	return built[m.in], err
}

var panicked = regexp.MustCompile(`(?m)^panic: `)

// judge says what the output of the tests means.
func judge(test, out string, err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(out, "no tests to run"):
		return otherFailure
	case err == nil:
		return survived
	case errors.As(err, &exit) && strings.Contains(out, "--- FAIL: "+test+" (") && !panicked.MatchString(out):
		return caught
	}
	return otherFailure
}

// build returns the test binaries of the folders.
func (b bench) build(changed map[string]string, dir string, folders ...string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	var packages []string
	for _, in := range folders {
		packages = append(packages, "./"+in)
	}
	built, err := testbinary.Build(ctx, b.root, changed, dir, packages...)
	binaries := map[string]string{}
	for _, in := range folders {
		binaries[in] = built["./"+in]
	}
	return binaries, err
}

// run is one of a test binary.
type run struct {
	in, binary, pattern, fault string
	limit                      time.Duration
	flag                       string
}

func (b bench) test(r run) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.limit+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.binary, "-test.run", r.pattern, "-test.timeout", r.limit.String(), r.flag)
	cmd.Dir, cmd.Env = filepath.Join(b.root, r.in), append(slices.Clone(b.env), faultVariable+"="+r.fault)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

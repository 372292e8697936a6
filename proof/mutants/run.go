package main

import (
	"context"
	"errors"
	"fmt"
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
	binaries map[string]string // the tests by their folder, with all faults in Go, of which a run chooses none or one
}

// newBench builds the tests of all folders. In one build each package is
// compiled once for all folders.
func newBench(root, dir string, env []string, mutants []mutant) (bench, error) {
	b := bench{root: root, env: env, binaries: map[string]string{}}
	changed, err := merge(root, mutants)
	if err != nil {
		return b, err
	}
	if changed[patienceFile], err = impatient(root); err != nil {
		return b, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	var packages []string
	for _, in := range folders(mutants) {
		packages = append(packages, "./"+in)
	}
	built, err := testbinary.Build(ctx, root, changed, dir, packages...)
	for _, in := range folders(mutants) {
		b.binaries[in] = built["./"+in]
	}
	return b, err
}

// A test waits for long for what never comes because of a fault. So tests have
// a third of their patience here, with and without a fault.
const (
	patienceFile = "internal/test/testkit/wait.go"
	patience     = "const Patience = 30 * time.Second\n"
	lessPatience = "const Patience = 10 * time.Second\n"
)

// impatient returns the file with less patience.
func impatient(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, patienceFile))
	if err == nil && strings.Count(string(text), patience) != 1 {
		err = fmt.Errorf("%s does not have once: %s", patienceFile, patience)
	}
	return strings.Replace(string(text), patience, lessPatience, 1), err
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
	out, err := b.test(run{in: m.in, binary: b.binaries[m.in], pattern: m.pattern(), flag: "-test.v"})
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
	binary := b.binaries[m.in]
	if m.inScript() {
		patched, err := b.patched(m)
		if err != nil {
			return otherFailure, err.Error()
		}
		defer os.Remove(patched) //nolint:errcheck // in a temporary folder
		binary = patched
	}
	for range runs {
		out, err := b.test(run{m.in, binary, m.pattern(), m.name, "-test.failfast"})
		verdict, output = judge(m.function(), out, err), fmt.Sprintf("%s\n%v", out, err)
		if verdict == caught {
			break
		}
	}
	return verdict, output
}

// patched makes a test binary whose script has the fault.
func (b bench) patched(m mutant) (binary string, err error) {
	old, text, err := m.apply(b.root)
	if err != nil {
		return "", err
	}
	binary = b.binaries[m.in] + "." + strings.ReplaceAll(m.name, "/", ".")
	return binary, testbinary.PatchScript(b.binaries[m.in], old, text, binary)
}

// runs is how often a test may run, since a fault that depends on a race
// survives some runs.
const runs = 3

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

// run is one of a test binary.
type run struct {
	in, binary, pattern, fault, flag string
}

func (b bench) test(r run) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.binary, "-test.run", r.pattern, "-test.timeout", testLimit.String(), r.flag)
	cmd.Dir, cmd.Env = filepath.Join(b.root, r.in), append(slices.Clone(b.env), faultVariable+"="+r.fault)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

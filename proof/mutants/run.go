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

// What can come of a mutant. Only a test that fails by itself has caught it: a panic or a timeout may have other causes.
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

// bench runs tests of the root package.
type bench struct {
	root   string
	env    []string
	binary string // the tests of the code as it is
}

func newBench(dir string) (b bench, err error) {
	if b.env, err = testbinary.Environment(); err != nil {
		return b, err
	}
	if b.root, err = testbinary.Root(); err != nil {
		return b, err
	}
	b.binary, err = b.build(nil, dir)
	return b, err
}

// testLimit is the time that the tests of one run may take, and buildLimit that of a build.
const (
	testLimit  = 60 * time.Second
	buildLimit = 3 * time.Minute
)

// unchanged runs all named tests as the code is. Were one of them to fail without a fault, or not to run, its failing would say nothing.
func (b bench) unchanged(mutants []mutant) error {
	names := functions(mutants)
	out, err := b.test(b.binary, "^("+strings.Join(names, "|")+")$", "-test.v")
	if err != nil {
		return fmt.Errorf("the tests fail without a fault: %w\n%s", err, out)
	}
	for _, name := range names {
		if !strings.Contains(out, "--- PASS: "+name+" (") {
			return fmt.Errorf("%s did not run", name)
		}
	}
	return nil
}

// functions are the tests that the mutants name, each once.
func functions(mutants []mutant) []string {
	var names []string
	for _, m := range mutants {
		names = append(names, m.function())
	}
	slices.Sort(names)
	return slices.Compact(names)
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
	out, err := b.test(binary, m.pattern(), "-test.failfast")
	return judge(m.function(), out, err), fmt.Sprintf("%s\n%v", out, err)
}

// mutated makes the test binary with the fault in it.
func (b bench) mutated(m mutant, old, text, dir string) (binary string, err error) {
	if !m.inScript() {
		return b.build(map[string]string{m.file: text}, dir)
	}
	binary = filepath.Join(dir, "relock.test")
	return binary, testbinary.PatchScript(b.binary, old, text, binary)
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

func (b bench) build(changed map[string]string, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	return testbinary.Build(ctx, b.root, ".", changed, dir)
}

func (b bench) test(binary, pattern, flag string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run", pattern, "-test.timeout", testLimit.String(), flag)
	cmd.Dir, cmd.Env = b.root, b.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// choice says which mutants to run.
type choice struct {
	pattern *regexp.Regexp // of their names
	touched bool           // only those that the change touches
	base    string         // the commit that the change is compared with; "" is the newest one that is over a day old
	most    int            // run at most this many of them; 0 is no limit
	seed    uint64         // of the sample
}

// sampleSize is how many mutants are tried when the change touches none.
const sampleSize = 20

// from returns the mutants of all to run, in their order, and says why these.
func (c choice) from(root string, all []mutant) (mutants []mutant, why string, err error) {
	for _, m := range all {
		if c.pattern.MatchString(m.name) {
			mutants = append(mutants, m)
		}
	}
	if len(mutants) == 0 {
		return nil, "", fmt.Errorf("no mutant matches %q", c.pattern)
	}
	if !c.touched {
		return c.sample(mutants, c.most, "all that match")
	}
	base, changed, err := changedFiles(root, c.base)
	if err != nil {
		return nil, "", err
	}
	if changed == nil {
		return c.sample(mutants, c.most, "no commit to compare with")
	}
	touched, err := touchedBy(root, changed, mutants)
	if err != nil {
		return nil, "", err
	}
	if len(touched) == 0 {
		return c.sample(mutants, sampleSize, "the change since "+base+" touches none")
	}
	return c.sample(touched, c.most, "touched since "+base)
}

// sample keeps at most this many mutants, drawn by the seed.
func (c choice) sample(mutants []mutant, most int, why string) ([]mutant, string, error) {
	if most <= 0 || most >= len(mutants) {
		return mutants, fmt.Sprintf("%d mutants: %s", len(mutants), why), nil
	}
	order := rand.New(rand.NewPCG(c.seed, 0)).Perm(len(mutants))[:most] //nolint:gosec // a sample, no secret
	slices.Sort(order)
	var drawn []mutant
	for _, i := range order {
		drawn = append(drawn, mutants[i])
	}
	return drawn, fmt.Sprintf("%d of %d mutants (-seed %d): %s", most, len(mutants), c.seed, why), nil
}

// touchedBy returns the mutants whose diff, file, or test's file has changed.
func touchedBy(root string, changed map[string]bool, mutants []mutant) (touched []mutant, err error) {
	tests := map[string]map[string]string{}
	for _, in := range folders(mutants) {
		if tests[in], err = testFiles(root, in); err != nil {
			return nil, err
		}
	}
	for _, m := range mutants {
		if changed[m.path()] || changed[m.file] || changed[tests[m.in][m.function()]] {
			touched = append(touched, m)
		}
	}
	return touched, nil
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testFiles returns the file of each test of a folder, from the root.
func testFiles(root, in string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(root, in, "*_test.go"))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, name := range paths {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, found := range testFunction.FindAllSubmatch(text, -1) {
			files[string(found[1])] = path.Join(in, filepath.Base(name))
		}
	}
	return files, nil
}

// changedFiles returns the files that differ from the newest common ancestor of
// HEAD and base, including uncommitted ones. They are nil if there is no commit
// to compare with, as in a shallow clone.
func changedFiles(root, base string) (since string, changed map[string]bool, err error) {
	named := base != ""
	if !named {
		base, err = git(root, "log", "-1", "--before=24.hours", "--format=%H")
	}
	if err != nil || base == "" {
		return "", nil, nil //nolint:nilerr // a source tree without history
	}
	since, err = git(root, "merge-base", "HEAD", base)
	if err != nil && named {
		return "", nil, fmt.Errorf("RELOCK_BASE=%s: %w", base, err)
	}
	if err != nil {
		return "", nil, err
	}
	differ, err := git(root, "diff", "--name-only", since)
	if err != nil {
		return "", nil, err
	}
	added, err := git(root, "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return "", nil, err
	}
	changed = map[string]bool{}
	for _, name := range strings.Fields(differ + "\n" + added) {
		changed[name] = true
	}
	return since[:min(len(since), 12)], changed, nil
}

func git(root string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

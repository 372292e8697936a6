package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
)

// choice says which mutants to run.
type choice struct {
	pattern *regexp.Regexp  // of their names
	changed map[string]bool // only those that these files touch; nil if any
	most    int             // run at most this many of them; 0 is no limit
	seed    uint64          // of the sample
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
	if c.changed == nil {
		drawn, why := c.sample(mutants, c.most, "all that match")
		return drawn, why, nil
	}
	touched, err := touchedBy(root, c.changed, mutants)
	if err != nil {
		return nil, "", err
	}
	if len(touched) == 0 {
		mutants, why = c.sample(mutants, sampleSize, "the change touches none")
	} else {
		mutants, why = c.sample(touched, c.most, "touched")
	}
	return mutants, why, nil
}

// sample keeps at most this many mutants, drawn by the seed.
func (c choice) sample(mutants []mutant, most int, why string) ([]mutant, string) {
	if most <= 0 || most >= len(mutants) {
		return mutants, fmt.Sprintf("%d mutants: %s", len(mutants), why)
	}
	order := rand.New(rand.NewPCG(c.seed, 0)).Perm(len(mutants))[:most] //nolint:gosec // a sample, no secret
	slices.Sort(order)
	var drawn []mutant
	for _, i := range order {
		drawn = append(drawn, mutants[i])
	}
	return drawn, fmt.Sprintf("%d of %d mutants (-seed %d): %s", most, len(mutants), c.seed, why)
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

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var ab = []mutant{
	{name: "code-of-a", file: "a.go", test: "TestB"},
	{name: "code-of-b", file: "b.go", test: "TestB/sub"},
	{name: "test-of-a", file: "c.go", test: "TestA/sub"},
}

// Mutants are touched by a change of their file, of their test, or of the fault
// itself. If the change touches none, some are drawn.
func TestTouched(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"A", "B"} {
		text := "package x\n\nfunc Test" + name + "(t *testing.T) {}\n"
		require.NoError(t, os.WriteFile(filepath.Join(root, strings.ToLower(name)+"_test.go"), []byte(text), 0o600))
	}
	for file, want := range map[string][]string{
		"a.go":       {"code-of-a"},
		"a_test.go":  {"test-of-a"},
		"b_test.go":  {"code-of-a", "code-of-b"},
		ab[1].path(): {"code-of-b"},
		"d.go":       {"code-of-a", "code-of-b", "test-of-a"},
	} {
		mutants, _, err := choice{pattern: regexp.MustCompile(""), changed: map[string]bool{file: true}}.from(root, ab)
		require.NoError(t, err)
		var names []string
		for _, m := range mutants {
			names = append(names, m.name)
		}
		require.Equal(t, want, names, file)
	}
}

func TestSample(t *testing.T) {
	c := choice{pattern: regexp.MustCompile(""), most: 2, seed: 1}
	drawn := map[string]bool{}
	for ; len(drawn) < len(ab) && c.seed < 100; c.seed++ {
		mutants, why, err := c.from("", ab)
		require.NoError(t, err)
		require.Len(t, mutants, 2)
		require.Contains(t, why, "2 of 3 mutants (-seed ")
		again, _, err := c.from("", ab)
		require.NoError(t, err)
		require.Equal(t, mutants, again, "a seed draws the same ones again")
		for _, m := range mutants {
			drawn[m.name] = true
		}
	}
	require.Len(t, drawn, len(ab), "each of them is drawn some time")
	_, _, err := choice{pattern: regexp.MustCompile("nobody")}.from("", ab)
	require.ErrorContains(t, err, `no mutant matches "nobody"`)
}

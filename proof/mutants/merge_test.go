package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const program = `package merged

import "fmt"

const unit = "s"

func length() (n int, what string) { return 1, unit }

func appendTo(text *string) {
	n, what := length()
	*text += fmt.Sprint(n, what)
}

func all() (text string) {
outer:
	for {
		appendTo(&text)
		break outer
	}
	return text
}
`

const programTest = `package merged

import "testing"

func TestAll(t *testing.T) {
	if text := all(); text != "1s" {
		t.Fatal(text)
	}
}
`

// newProgram is a bench for a module of a few lines.
func newProgram(t testing.TB) bench {
	t.Helper()
	t.Setenv("GOWORK", "off")
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module merged\n\ngo 1.25.0\n", "all.go": program, "all_test.go": programTest} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return bench{root: root, env: os.Environ(), binaries: map[string]string{}, merged: map[string]bool{}}
}

func fault(name, old, instead string) mutant {
	return mutant{name: name, file: "all.go", old: old, new: instead, test: "TestAll"}
}

func TestMergedFaultsAreChosen(t *testing.T) {
	b := newProgram(t)
	merged := []mutant{
		fault("length: two", "return 1,", "return 2,"),
		fault("length: none", "{ return 1, unit }", "{ return 0, unit }"),
		fault("append: nothing", "*text += fmt.Sprint(n, what)", "_, _ = n, what"),
		fault("append: none before", "(text *string) {\n", "(text *string) {\n\t*text = \"none\"\n"),
	}
	alone := []mutant{
		fault("unit: minutes", `unit = "s"`, `unit = "min"`),
		fault("all: forgets its text", "break outer\n\t}\n", "break outer\n\t}\n\ttext = \"\"\n"), // a function cannot have a label twice
	}
	harmless := fault("append: as it is", "n, what := length()", "n, what := length()\n\t_ = n")
	mutants := slices.Concat(merged, alone, []mutant{harmless})
	require.NoError(t, b.prepare(mutants, t.TempDir()))
	require.NoError(t, b.unchanged(mutants))
	require.ErrorContains(t, b.unchanged([]mutant{{test: "TestNone"}}), "TestNone did not run")
	for _, m := range slices.Concat(merged, alone) {
		r := b.try(m)
		require.Equal(t, caught, r.verdict, "%s\n%s", m.name, r.output)
	}
	require.Equal(t, survived, b.try(harmless).verdict)
	for _, m := range merged {
		require.True(t, b.merged[m.name], m.name)
	}
	require.Len(t, b.merged, len(merged)+1)
}

func TestMergedFaultThatDoesNotBuildIsNamed(t *testing.T) {
	b := newProgram(t)
	err := b.prepare([]mutant{fault("length: wrong", "return 1,", "return one,")}, t.TempDir())
	require.ErrorContains(t, err, "length: wrong:1:")
	require.ErrorContains(t, err, "undefined: one")
}

func TestChange(t *testing.T) {
	for _, tt := range []struct {
		old, new, instead string
		before, after     int
	}{
		{"abc", "axc", "x", 1, 1},
		{"abc", "abbc", "b", 2, 1},
		{"aa", "a", "", 1, 0},
		{"a", "aa", "a", 1, 0},
		{"ab", "cd", "cd", 0, 0},
	} {
		before, instead, after := mutant{old: tt.old, new: tt.new}.change()
		require.Equal(t, tt.instead, instead, tt)
		require.Equal(t, tt.before, before, tt)
		require.Equal(t, tt.after, after, tt)
	}
}

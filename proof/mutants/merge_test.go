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

// newProgram is the folder of a module of a few lines.
func newProgram(t testing.TB) (root string) {
	t.Helper()
	t.Setenv("GOWORK", "off")
	root = t.TempDir()
	files := map[string]string{
		"go.mod": "module merged\n\ngo 1.25.0\n", "all.go": program, "all_test.go": programTest,
		patienceFile: "package testkit\n\nimport \"time\"\n\n" + patience,
	}
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

func fault(name, old, instead string) mutant {
	return mutant{name: name, file: "all.go", old: old, new: instead, test: "TestAll"}
}

func TestMergedFaultsAreChosen(t *testing.T) {
	merged := []mutant{
		fault("length: two", "func length() (n int, what string) { return 1, unit }\n",
			"func length() (n int, what string) { return 2, unit }\n"),
		fault("append: nothing", "\t*text += fmt.Sprint(n, what)\n", "\t_, _ = n, what\n"),
		fault("append: none before", "func appendTo(text *string) {\n",
			"func appendTo(text *string) {\n\t*text = \"none\"\n"),
	}
	harmless := fault("append: as it is", "\tn, what := length()\n", "\tn, what := length()\n\t_ = n\n")
	mutants := slices.Concat(merged, []mutant{harmless})
	b, err := newBench(newProgram(t), t.TempDir(), os.Environ(), mutants)
	require.NoError(t, err)
	require.NoError(t, b.unchanged(mutants))
	require.ErrorContains(t, b.unchanged([]mutant{{test: "TestNone"}}), "TestNone did not run")
	for _, m := range merged {
		r := b.try(m)
		require.Equal(t, caught, r.verdict, "%s\n%s", m.name, r.output)
	}
	require.Equal(t, survived, b.try(harmless).verdict)
}

func TestFaultsThatCannotBeMerged(t *testing.T) {
	root := newProgram(t)
	for want, m := range map[string]mutant{
		"length: wrong:1:": fault(
			"length: wrong", "func length() (n int, what string) { return 1, unit }\n",
			"func length() (n int, what string) { return one, unit }\n",
		),
		"unit.diff: changes more than the body": fault("unit", "const unit = \"s\"\n", "const unit = \"min\"\n"),
		// A function cannot have a label twice.
		"text.diff: changes more than the body": fault("text", "\treturn text\n", "\treturn text + text\n"),
		"none.diff: all.go has these lines 0":   fault("none", "a\n", "b\n"),
	} {
		_, err := newBench(root, t.TempDir(), os.Environ(), []mutant{m})
		require.ErrorContains(t, err, want)
	}
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

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
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

// scripts/touched.sh prints what is not committed, what is committed since the
// merge base, and no more.
func TestTouchedFiles(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		redistest.Lacks(t, "git is not on PATH")
	}
	root := filepath.Join(t.TempDir(), "project")
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...) //nolint:gosec // git, and our script
		cmd.Dir = root
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	git := func(args ...string) string {
		out, err := run("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
		require.NoError(t, err)
		return out
	}
	commit := func(file string, age time.Duration) string {
		require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(file), 0o600))
		git("add", ".")
		t.Setenv("GIT_COMMITTER_DATE", time.Now().Add(-age).Format(time.RFC3339))
		git("commit", "-q", "-m", "x")
		return git("rev-parse", "HEAD")
	}
	touched := func(base string) string {
		t.Setenv("RELOCK_BASE", base)
		files, err := run("scripts/touched.sh")
		require.NoError(t, err)
		return files
	}
	project, _ := loaded(t)
	script, err := os.ReadFile(filepath.Join(project, "scripts", "touched.sh"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "scripts"), 0o750))
	//nolint:gosec // it is run
	require.NoError(t, os.WriteFile(filepath.Join(root, "scripts", "touched.sh"), script, 0o700))

	require.Empty(t, touched(""), "a source tree without history")
	git("init", "-q")
	first := commit("first.go", 72*time.Hour)
	others := commit("of-others.go", 48*time.Hour)
	git("checkout", "-q", first)
	commit("mine.go", 0)
	require.Equal(t, "mine.go", touched(""), "since a commit that is over a day old")
	require.NoError(t, os.WriteFile(filepath.Join(root, "new.go"), nil, 0o600))
	require.Equal(t, "mine.go\nnew.go", touched(others), "since the merge base")
	t.Setenv("RELOCK_BASE", "nothing")
	_, err = run("scripts/touched.sh")
	require.Error(t, err)
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
)

// history is a repository whose commits are made by a test.
type history struct {
	*testing.T
	root string
}

func newHistory(t *testing.T) history {
	if _, err := exec.LookPath("git"); err != nil {
		redistest.Lacks(t, "git is not on PATH")
	}
	h := history{t, t.TempDir()}
	h.git("init", "-q")
	h.write("a.go", "a")
	h.write("b.go", "b")
	h.write("a_test.go", "package x\n\nfunc TestA(t *testing.T) {}\n")
	h.write("b_test.go", "package x\n\nfunc TestB(t *testing.T) {}\n")
	return h
}

func (h history) write(name, text string) {
	h.Helper()
	path := filepath.Join(h.root, name)
	require.NoError(h, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(h, os.WriteFile(path, []byte(text), 0o600))
}

func (h history) git(args ...string) string {
	h.Helper()
	out, err := git(h.root, append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
	require.NoError(h, err)
	return out
}

// commit commits what is there, as of so long ago, and returns the commit.
func (h history) commit(age time.Duration) string {
	h.Helper()
	h.git("add", ".")
	h.Setenv("GIT_COMMITTER_DATE", time.Now().Add(-age).Format(time.RFC3339))
	h.git("commit", "-q", "--allow-empty", "-m", "x")
	return h.git("rev-parse", "HEAD")
}

var ab = []mutant{
	{name: "code-of-a", file: "a.go", test: "TestB"},
	{name: "code-of-b", file: "b.go", test: "TestB/sub"},
	{name: "test-of-a", file: "c.go", test: "TestA/sub"},
}

// touched returns the names of the mutants that the change touches.
func (h history) touched(base string) (names []string) {
	h.Helper()
	mutants, _, err := choice{pattern: regexp.MustCompile(""), touched: true, base: base}.from(h.root, ab)
	require.NoError(h, err)
	for _, m := range mutants {
		names = append(names, m.name)
	}
	return names
}

func TestTouched(t *testing.T) {
	h := newHistory(t)
	all := []string{"code-of-a", "code-of-b", "test-of-a"}
	old := h.commit(48 * time.Hour)
	require.Equal(t, all, h.touched(""), "where nothing differs, a sample")
	h.write("a.go", "A")
	require.Equal(t, []string{"code-of-a"}, h.touched(""), "a file that is not committed")
	young := h.commit(0)
	require.Equal(t, []string{"code-of-a"}, h.touched(""), "a commit that is less than a day old")
	h.write("a_test.go", "package x\n\nfunc TestA(t *testing.T) { t.Log() }\n")
	require.Equal(t, []string{"test-of-a"}, h.touched(young), "a test alone")
	require.Equal(t, []string{"code-of-a", "test-of-a"}, h.touched(old))
	h.write("c.go", "c")
	require.Equal(t, []string{"test-of-a"}, h.touched(young), "a new file")
	h.write(ab[1].path(), "b")
	require.Equal(t, []string{"code-of-b", "test-of-a"}, h.touched(young), "a new mutant")
	_, _, err := choice{pattern: regexp.MustCompile(""), touched: true, base: "nothing"}.from(h.root, ab)
	require.ErrorContains(t, err, "RELOCK_BASE=nothing")
}

// What others have added to the base since is no part of the change.
func TestTouchedSinceTheMergeBase(t *testing.T) {
	h := newHistory(t)
	first := h.commit(72 * time.Hour)
	h.write("b.go", "B")
	others := h.commit(48 * time.Hour)
	h.git("checkout", "-q", first)
	h.write("a.go", "A")
	h.commit(0)
	require.Equal(t, []string{"code-of-a"}, h.touched(others))
}

// Where no commit can be compared with, all count as touched.
func TestTouchedWithoutHistory(t *testing.T) {
	h := newHistory(t)
	h.commit(0)
	mutants, why, err := choice{pattern: regexp.MustCompile("code"), touched: true}.from(h.root, ab)
	require.NoError(t, err)
	require.Len(t, mutants, 2)
	require.Equal(t, "2 mutants: no commit to compare with", why)
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

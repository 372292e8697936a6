package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/proof/internal/testbinary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loaded returns the root of the project and its mutants.
func loaded(t testing.TB) (root string, all []mutant) {
	t.Helper()
	root, err := testbinary.Root()
	require.NoError(t, err)
	all, err = load(root)
	require.NoError(t, err)
	require.Greater(t, len(all), 100)
	return root, all
}

// A change to the code that a mutant is made of fails this quick test.
func TestMutantsApply(t *testing.T) {
	root, all := loaded(t)
	s := redistest.Start(t)
	for _, m := range all {
		_, text, err := m.apply(root)
		if assert.NoError(t, err) && m.inScript() {
			_, err = s.Try(t, "SCRIPT", "LOAD", text)
			assert.NoError(t, err, "%s: a script that does not load fails every test", m.path())
		}
	}
	if !t.Failed() {
		_, err := merge(root, all)
		require.NoError(t, err)
		_, err = impatient(root)
		require.NoError(t, err)
	}
}

// A person can put each mutant into the code with git apply.
func TestGitTakesMutants(t *testing.T) {
	root, all := loaded(t)
	if err := exec.Command("git", "-C", root, "rev-parse").Run(); err != nil {
		redistest.Lacks(t, "no git, or no repository: "+err.Error())
	}
	for _, m := range all {
		//nolint:gosec // our own files
		out, err := exec.Command("git", "-C", root, "apply", "--check", m.path()).CombinedOutput()
		assert.NoError(t, err, "%s", out)
	}
}

var (
	sectionLine = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors returns the links to a page and to its sections.
func anchors(page, text string) (all []string) {
	all = []string{page}
	for _, found := range sectionLine.FindAllStringSubmatch(text, -1) {
		anchor := notInAnchor.ReplaceAllString(strings.ToLower(found[1]), "")
		all = append(all, page+"#"+strings.ReplaceAll(anchor, " ", "-"))
	}
	return all
}

// A mutant breaks a rule that is documented, and names a test that is there.
func TestMutantsNameRuleAndTest(t *testing.T) {
	root, all := loaded(t)
	sections, tests := map[string][]string{}, map[string]map[string]string{}
	for _, m := range all {
		page, _, _ := strings.Cut(m.see, "#")
		if sections[page] == nil {
			text, err := os.ReadFile(filepath.Join(root, page))
			require.NoError(t, err, m.path())
			sections[page] = anchors(page, string(text))
		}
		assert.Contains(t, sections[page], m.see, m.path())
		if tests[m.in] == nil {
			names, err := testFiles(root, m.in)
			require.NoError(t, err)
			tests[m.in] = names
		}
		assert.NotEmpty(t, tests[m.in][m.function()], "%s: %s is not in %q", m.path(), m.function(), m.in)
	}
}

const beginning = "Rule: R.\nSee: docs/a.md#b\nTest: . TestA/b\n\n--- a/f.go\n+++ b/f.go\n"

func TestParseMutant(t *testing.T) {
	m, err := parseMutant(beginning + "@@ -1,3 +1,3 @@ func f\n a\n\n-b\n+c\n+d\n")
	require.NoError(t, err)
	want := mutant{rule: "R.", see: "docs/a.md#b", test: "TestA/b", file: "f.go", old: "a\n\nb\n", new: "a\n\nc\nd\n"}
	require.Equal(t, want, m)
	head := strings.Replace(beginning, "---", "diff --git a/f.go b/f.go\nindex 8d1c8b..3f4a1e 100644\n---", 1)
	byGit, err := parseMutant(head + "@@ -1,3 +1,3 @@\n a\n \n-b\n+c\n+d\n")
	require.NoError(t, err)
	require.Equal(t, m, byGit)
	for wrong, want := range map[string]string{
		"":        "does not begin",
		beginning: "does not begin",
		strings.Replace(beginning, "b/f.go", "b/g.go", 1) + "@@ -1 +1 @@\n-b\n+c\n":    "renames",
		strings.Replace(beginning, "Rule: R.", "Rule: R", 1) + "@@ -1 +1 @@\n-b\n+c\n": "does not begin",
		beginning + "@@ -1 +1 @@\n-b\n+c\n@@ -9 +9 @@\n-d\n+e\n":                       "no line of the one hunk: @@ -9",
		beginning + "@@ -1 +1 @@\n-b\n+b\n":                                            "changes no whole lines",
		beginning + "@@ -1 +1 @@\n a\n":                                                "changes no whole lines",
		beginning + "@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+c\n":              "no line of the one hunk",
	} {
		_, err := parseMutant(wrong)
		require.ErrorContains(t, err, want, wrong)
	}
}

func TestOldLinesMustOccurOnce(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "f.go"), []byte("a\nb\nb\nbc\n"), 0o600))
	old, text, err := mutant{file: "f.go", old: "a\nb\n", new: "c\n"}.apply(root)
	require.NoError(t, err)
	require.Equal(t, "a\nb\nb\nbc\n", old)
	require.Equal(t, "c\nb\nbc\n", text)
	for lines, times := range map[string]string{"b\n": "2 times", "d\n": "0 times", "c\n": "0 times"} {
		_, _, err := mutant{name: "n", file: "f.go", old: lines}.apply(root)
		require.ErrorContains(t, err, faults+"/n.diff: f.go has these lines "+times)
	}
}

func TestOnlyAFailureOfTheTestCatches(t *testing.T) {
	failed := &exec.ExitError{}
	for _, tt := range []struct {
		out     string
		err     error
		verdict string
	}{
		{"--- FAIL: TestA (0.1s)\nFAIL", failed, caught},
		{"    --- FAIL: TestA/sub (0.1s)\n--- FAIL: TestA (0.1s)\nFAIL", failed, caught},
		{"PASS", nil, survived},
		{"testing: warning: no tests to run\nPASS", nil, otherFailure},
		{"--- FAIL: TestAB (0.1s)\nFAIL", failed, otherFailure},
		{"--- FAIL: TestA (0.1s)\npanic: oh [recovered]", failed, otherFailure},
		{"panic: test timed out after 1m0s", failed, otherFailure},
		{"PASS\ngoroutines are left", failed, otherFailure},
		{"--- FAIL: TestA (0.1s)", errors.New("not started"), otherFailure},
	} {
		require.Equal(t, tt.verdict, judge("TestA", tt.out, tt.err), tt.out)
	}
}

func TestPattern(t *testing.T) {
	require.Equal(t, "^TestA$", mutant{test: "TestA"}.pattern())
	require.Equal(t, "^TestA$/b", mutant{test: "TestA/b"}.pattern())
}

// Without a fault each test runs once, however many mutants name it.
func TestDistinct(t *testing.T) {
	got := distinct([]mutant{{name: "1", test: "TestB"}, {name: "2", test: "TestA/b"}, {name: "3", test: "TestB"}, {
		name: "4", test: "TestB", in: "etcd",
	}})
	require.Equal(t,
		[]mutant{{name: "1", test: "TestB"}, {name: "2", test: "TestA/b"}, {name: "4", test: "TestB", in: "etcd"}}, got)
}

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/proof/internal/testbinary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rootOf(t testing.TB) string {
	t.Helper()
	root, err := testbinary.Root()
	require.NoError(t, err)
	return root
}

// A change to the code that a mutant is made of fails this quick test.
func TestMutantsApply(t *testing.T) {
	root := rootOf(t)
	s := redistest.Start(t)
	names := map[string]bool{}
	for _, m := range all {
		_, text, err := m.apply(root)
		if !assert.NoError(t, err, m.name) {
			continue
		}
		if m.inScript() {
			_, err := s.Try(t, "SCRIPT", "LOAD", text)
			require.NoError(t, err, "%s: a script that does not load fails every test", m.name)
		}
		require.Contains(t, text, m.new, m.name)
		require.NotEqual(t, m.old, m.new, m.name)
		require.False(t, names[m.name], "%s: is there twice", m.name)
		names[m.name] = true
	}
}

func TestMutantsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(rootOf(t), "docs", "proof.md"))
	require.NoError(t, err)
	require.True(t, strings.Contains(string(text), table(all)), "put the output of go run -C proof ./mutants -doc into docs/proof.md")
}

func TestOldTextMustOccurOnce(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "f.go"), []byte("a b b"), 0o600))
	old, text, err := mutant{file: "f.go", old: "a", new: "c"}.apply(root)
	require.NoError(t, err)
	require.Equal(t, "a b b", old)
	require.Equal(t, "c b b", text)
	for _, old := range []string{"b", "d"} {
		m := mutant{file: "f.go", old: old, new: "c"}
		_, _, err := m.apply(root)
		require.Error(t, err)
		require.Equal(t, doesNotApply, bench{root: root}.try(m).verdict)
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
	got := distinct([]mutant{{name: "1", test: "TestB"}, {name: "2", test: "TestA/b"}, {name: "3", test: "TestB"}, {name: "4", test: "TestB", in: "etcd"}})
	require.Equal(t, []mutant{{name: "1", test: "TestB"}, {name: "2", test: "TestA/b"}, {name: "4", test: "TestB", in: "etcd"}}, got)
}

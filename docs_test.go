package relock

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each test that the documentation names is there.
func TestGuaranteesNameTests(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	define := regexp.MustCompile(`(?m)^func ((?:Test|Example)\w+)\(`)
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range define.FindAllSubmatch(text, -1) {
			there[string(found[1])] = true
		}
		return err
	}))
	name := regexp.MustCompile("`((?:Test|Example)\\w+)`")
	for _, file := range []string{"guarantees.md", "proof.md", "etcd.md", "fencing.md", "design.md", "protocol.md", "queue.md"} {
		text, err := os.ReadFile(filepath.Join("docs", file))
		require.NoError(t, err)
		for _, found := range name.FindAllSubmatch(text, -1) {
			require.True(t, there[string(found[1])], "%s names %s", file, found[1])
		}
	}
}

// Each package has its line in the map of CONTRIBUTING.
func TestMapNamesEachPackage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("CONTRIBUTING.md")
	require.NoError(t, err)
	packages := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || path != "." && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go"):
			packages[filepath.ToSlash(filepath.Dir(path))] = true
		}
		return nil
	}))
	require.Greater(t, len(packages), 10)
	for folder := range packages {
		require.Contains(t, string(text), "`"+folder+"`", "has no line in the map")
	}
}

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
	for _, file := range []string{"guarantees.md", "etcd.md", "fencing.md", "design.md"} {
		text, err := os.ReadFile(filepath.Join("docs", file))
		require.NoError(t, err)
		for _, found := range name.FindAllSubmatch(text, -1) {
			require.True(t, there[string(found[1])], "%s names %s", file, found[1])
		}
	}
}

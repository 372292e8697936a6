package relock_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func readFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(text)
}

// glob returns the files of a pattern.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	return files
}

// pages returns the documents for users and for contributors.
func pages(t *testing.T) []string {
	t.Helper()
	users, internals := glob(t, "docs/*.md"), glob(t, "docs/internals/*.md")
	return slices.Concat(users, internals, glob(t, "docs/internals/models/*.md"))
}

// eachFile calls f with each file outside of hidden folders and testdata.
func eachFile(t *testing.T, f func(path string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			f(path)
		case entry.Name() == "testdata" || entry.Name() == ".git":
			return fs.SkipDir
		}
		return nil
	}))
}

// eachGoFile calls check with each Go file of all modules.
func eachGoFile(t *testing.T, check func(path string, file *ast.File)) {
	t.Helper()
	eachFile(t, func(path string) {
		if strings.HasSuffix(path, ".go") {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			require.NoError(t, err)
			check(path, file)
		}
	})
}

// Each test that the documentation names is there.
func TestGuaranteesNameTests(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	define := regexp.MustCompile(`(?m)^func ((?:Test|Example)\w+)\(`)
	eachFile(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			for _, found := range define.FindAllStringSubmatch(readFile(t, path), -1) {
				there[found[1]] = true
			}
		}
	})
	name := regexp.MustCompile("`((?:Test|Example)\\w+)`")
	for _, file := range pages(t) {
		for _, found := range name.FindAllStringSubmatch(readFile(t, file), -1) {
			require.True(t, there[found[1]], "%s names %s", file, found[1])
		}
	}
}

// Each package has its line in the map of CONTRIBUTING.
func TestMapNamesEachPackage(t *testing.T) {
	t.Parallel()
	text, packages := readFile(t, "CONTRIBUTING.md"), map[string]bool{}
	eachFile(t, func(path string) {
		if strings.HasSuffix(path, ".go") {
			packages[filepath.ToSlash(filepath.Dir(path))] = true
		}
	})
	require.Greater(t, len(packages), 10)
	for folder := range packages {
		require.Contains(t, text, "`"+folder+"`", "has no line in the map")
	}
}

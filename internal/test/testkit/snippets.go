package testkit

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var fenced = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// CodeBlocks returns the Go code of a Markdown file.
func CodeBlocks(t testing.TB, path string) []string {
	t.Helper()
	return CodeBlocksIn(t, path, "go")
}

// CodeBlocksIn returns the code of a Markdown file in another language.
// Commands have the language "".
func CodeBlocksIn(t testing.TB, path, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, found := range fenced.FindAllStringSubmatch(string(text), -1) {
		if found[1] == language {
			blocks = append(blocks, found[2])
		}
	}
	return blocks
}

// A CodeChecker type-checks code as the body of a function.
type CodeChecker struct {
	prelude  string
	files    *token.FileSet
	packages types.Importer
}

// NewCodeChecker returns a Checker for code that uses packages and what the
// prelude declares. The packages are those of the module of the test.
func NewCodeChecker(t testing.TB, packages []string, prelude string) *CodeChecker {
	t.Helper()
	exports := exports(t, packages)
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	var imports strings.Builder
	for _, path := range packages {
		fmt.Fprintf(&imports, "import %q\n", path)
	}
	files := token.NewFileSet()
	return &CodeChecker{"package snippet\n" + imports.String() + prelude, files, importer.ForCompiler(files, "gc", lookup)}
}

// exports returns the files in which the build cache has the types of packages
// and of all that they import.
func exports(t testing.TB, packages []string) map[string]string {
	t.Helper()
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, packages...)
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	require.NoError(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files
}

// Check returns the first mistake that keeps the code from compiling. A
// variable or package that is not used is none. A return may be missing.
func (c *CodeChecker) Check(code string) error {
	source := c.prelude + "\nfunc _() (failed error) {\n" + code + "\nreturn nil\n}\n"
	file, err := parser.ParseFile(c.files, "snippet.go", source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var first error
	config := types.Config{Importer: c.packages, Error: func(err error) {
		if e, ok := err.(types.Error); first == nil && (!ok || !e.Soft) { //nolint:errorlint // it is not wrapped
			first = err
		}
	}}
	_, _ = config.Check("snippet", c.files, []*ast.File{file}, nil)
	return first
}

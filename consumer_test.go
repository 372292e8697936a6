package relock_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that imports relock downloads and compiles no more than this.
func TestConsumer(t *testing.T) {
	t.Parallel()
	root, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module example.com/consumer\n\ngo 1.25.0\n\nrequire github.com/relock-go/relock v0.1.0\n\n"+
		"replace github.com/relock-go/relock => "+root+"\n")
	write("main.go", "package main\n\nimport _ \"github.com/relock-go/relock\"\n\nfunc main() {}\n")
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	run("mod", "tidy")

	const ownLines = 2 // of relock itself, which a replaced module does not have
	require.LessOrEqual(t, strings.Count(readFile(t, dir, "go.sum"), "\n")+ownLines, 14, "lines in go.sum")

	modules := strings.Fields(run("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "."))
	slices.Sort(modules)
	require.Equal(t, []string{
		"example.com/consumer", "github.com/gomodule/redigo", "github.com/google/uuid",
		"github.com/petermattis/goid", "github.com/relock-go/relock",
	}, slices.Compact(modules), "modules compiled in")
}

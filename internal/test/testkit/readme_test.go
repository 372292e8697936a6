package testkit_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

const root = "../../.."

// What README says works as written, from an empty folder: the command that
// installs relock, the first example, and every recipe. Only the address of the
// server is another one, and the module proxy has no relock yet.
func TestReadmeFromAnEmptyFolder(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	install := regexp.MustCompile(`(?m)^go get (github.com/relock-go/relock)\b`).FindStringSubmatch(string(readme))
	require.NotNil(t, install)
	checkout, err := filepath.Abs(root)
	require.NoError(t, err)

	dir := t.TempDir()
	program := strings.ReplaceAll(fill(t, "testdata/readme.go.txt"), "localhost:6379", s.Address)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
	run := goIn(t, dir)
	run("", "mod", "init", "example.com/app")
	run("", "mod", "edit", "-replace", install[1]+"="+checkout)
	run("GOPROXY=off", "get", install[1])
	require.Equal(t, `first: reports
handler: meanwhile 409
handler: 200
handler: lost 500
handler: failed 500
cron: runs 1
nested: level 2
in memory: busy true
`, run("", "run", "."))
}

// fill returns a program with README's code in its places.
func fill(t *testing.T, path string) string {
	t.Helper()
	blocks := testkit.CodeBlocks(t, filepath.Join(root, "README.md"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	place, used := regexp.MustCompile(`(?m)^\t+//readme (\d)$`), map[int]bool{}
	filled := place.ReplaceAllStringFunc(string(text), func(found string) string {
		n, err := strconv.Atoi(place.FindStringSubmatch(found)[1])
		require.NoError(t, err)
		require.Less(t, n, len(blocks))
		used[n] = true
		return blocks[n]
	})
	require.Len(t, used, len(blocks), "code of README is in no place")
	return filled
}

// goIn returns a function that runs the go command in a folder.
func goIn(t *testing.T, dir string) func(env string, args ...string) string {
	return func(env string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", env)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %s: %s", strings.Join(args, " "), out)
		return string(out)
	}
}

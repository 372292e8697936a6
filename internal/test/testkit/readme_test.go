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
	install := regexp.MustCompile(`(?m)^go get (github.com/relock-go/relock)$`).FindStringSubmatch(string(readme))
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
	run("", "get", sqlite(t))
	require.Equal(t, `first: reports
handler: meanwhile 409
handler: 200
handler: lost 500
handler: failed 500
cron: runs 1
leader: lock lost (forced: "moves")
leader: context canceled
leader: terms 2 error <nil>
nested: level 2
fencing: rows 1
fencing: rows 0
fencing: not under a lock
in memory: busy true
shutdown: closed true
`, run("", "run", "."))
}

// fill returns a program with README's code in its places.
func fill(t *testing.T, path string) string {
	t.Helper()
	blocks := testkit.CodeBlocks(t, filepath.Join(root, "README.md"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	place := regexp.MustCompile(`(?m)^\t+//readme (\d)(?: (\w+))?$`)
	used := map[string]bool{}
	filled := place.ReplaceAllStringFunc(string(text), func(found string) string {
		names := place.FindStringSubmatch(found)
		n, err := strconv.Atoi(names[1])
		require.NoError(t, err)
		code := blocks[n]
		if names[2] != "" {
			code = recipes(code)[names[2]]
		}
		require.NotEmpty(t, code, found)
		used[code] = true
		return code
	})
	all := 0
	for _, block := range blocks {
		all += max(1, len(recipes(block)))
	}
	require.Len(t, used, all, "a part of README is in no place")
	return filled
}

// recipes splits a block at the comments with which its recipes begin, by their
// first word. A block of one recipe has none.
func recipes(block string) map[string]string {
	begins := regexp.MustCompile(`(?m)^// (Handler|Cron|Leader|Shutdown|Nested|Fencing)\b`).FindAllStringSubmatchIndex(block, -1)
	all := map[string]string{}
	for i, at := range begins {
		end := len(block)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		all[block[at[2]:at[3]]] = block[at[0]:end]
	}
	return all
}

// sqlite returns the database of examples/fencing, whose sums are known.
func sqlite(t *testing.T) string {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join(root, "examples", "fencing", "go.mod"))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^\tmodernc\.org/sqlite (v\S+)$`).FindStringSubmatch(string(mod))
	require.NotNil(t, found)
	return "modernc.org/sqlite@" + found[1]
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

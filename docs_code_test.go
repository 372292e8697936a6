package relock_test

import (
	"bufio"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/testkit"
)

// usedInDocs are the packages and variables of code in Markdown files.
var usedInDocs = []string{
	"context", "crypto/tls", "crypto/x509", "errors", "log/slog", "net/http", "net/http/httptest", "testing", "time",
	"github.com/relock-go/relock",
	"github.com/relock-go/relock/queue", "github.com/relock-go/relock/relocktest", "github.com/relock-go/relock/relockweb",
}

const declaredInDocs = `
var (
	ctx    context.Context
	client *relock.Client
	hold   relock.Hold
	report func(context.Context) error
	call   func(context.Context) error
	charge func(context.Context) error
	lead   func(context.Context) error
	ca     []byte
	t      *testing.T
	send   func(ctx context.Context, to string, text []byte) error
)`

// The Go code of README and docs compiles, or is a part of an example that is
// executed. That of docs/migration.md, goredis and etcd needs other modules,
// and is checked there.
func TestDocumentedCode(t *testing.T) {
	t.Parallel()
	check := testkit.NewCodeChecker(t, usedInDocs, declaredInDocs)
	require.ErrorContains(t, check.Check("client.Lock(ctx)"), "client.Lock undefined")
	examples := executed(t)
	parts := 0
	for _, file := range append(pages(t), "README.md", "README.zh-CN.md") {
		if file == filepath.Join("docs", "migration.md") {
			continue
		}
		for _, block := range testkit.CodeBlocks(t, file) {
			switch {
			case partsOf(examples, block):
				parts++
			case strings.Contains(block, "goredis."):
			default:
				require.NoError(t, check.Check(block), "%s: %s", file, block)
			}
		}
	}
	require.GreaterOrEqual(t, parts, 2, "the recipes of both READMEs")
}

// The languages of code in documents are those that a test runs or compiles. Of
// commands, each target, module, folder and file is there. Tests run the lines
// with ACL in the files named here. The SQL of docs/fencing.md runs in
// examples/heavy/fencing. README runs from an empty folder in
// internal/test/testkit.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	opened := regexp.MustCompile("(?m)^ *```(.*)\n(?s:.*?)^ *```$")
	for _, file := range append(pages(t), "README.md", "README.zh-CN.md", "CONTRIBUTING.md",
		filepath.Join("etcd", "README.md")) {
		for _, found := range opened.FindAllStringSubmatch(readFile(t, file), -1) {
			require.True(t, found[1] == "" || found[1] == "go" || filepath.Base(file) == "fencing.md",
				"%s has code in %q, which no test runs", file, found[1])
		}
		for _, block := range testkit.CodeBlocksIn(t, file, "") {
			for line := range strings.Lines(block) {
				requireCommand(t, file, strings.TrimSpace(line))
			}
		}
	}
	for _, block := range testkit.CodeBlocksIn(t, filepath.Join("docs", "fencing.md"), "http") {
		request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(block + "\n")))
		require.NoError(t, err)
		_, err = strconv.ParseInt(request.Header.Get("Fencing-Token"), 10, 64)
		require.NoError(t, err)
	}
}

// requireCommand checks that what a command names is there.
func requireCommand(t *testing.T, file, line string) {
	t.Helper()
	words := strings.Fields(line)
	switch {
	// it has a drawing
	case line == "", strings.HasPrefix(line, "#"), file == filepath.Join("docs", "internals", "design.md"):
	// cmd/relock checks their lines
	case file == filepath.Join("docs", "cli.md"), file == filepath.Join("docs", "tools.md"):
	case words[0] == "make":
		if len(words) > 1 && words[1] != "#" {
			require.Contains(t, readFile(t, "Makefile"), "\n"+words[1]+":", "%s: %s", file, line)
		}
	case words[0] == "go" && words[1] == "get":
		folder := strings.TrimPrefix(strings.TrimPrefix(words[2], "github.com/relock-go/relock"), "/")
		require.FileExists(t, filepath.Join(folder, "go.mod"), "%s: %s", file, line)
	case words[0] == "go" && words[1] == "install":
		folder := strings.TrimSuffix(strings.TrimPrefix(words[2], module+"/"), "@latest")
		require.FileExists(t, filepath.Join(folder, "main.go"), "%s: %s", file, line)
	case words[0] == "go" && words[1] == "run":
		require.FileExists(t, filepath.Join(words[2], "main.go"), "%s: %s", file, line)
	case words[0] == "ACL":
		require.Contains(t, []string{
			"README.md", "README.zh-CN.md", filepath.Join("docs", "operations.md"),
			filepath.Join("docs", "queue.md"), filepath.Join("docs", "sentinel.md"),
		}, file, line)
	case strings.HasPrefix(words[0], "./"):
		require.FileExists(t, filepath.Join(filepath.Dir(file), words[0]), "%s: %s", file, line)
	default:
		require.Contains(t, []string{"spin", "gcc"}, words[0],
			"%s: %s, which no test checks", file, line) // as check.sh runs them
	}
}

// executed returns the bare code of each example.
func executed(t *testing.T) (examples []string) {
	t.Helper()
	for _, pattern := range []string{"example*_test.go", "examples/*/main.go", "examples/heavy/*/main.go"} {
		for _, file := range glob(t, pattern) {
			examples = append(examples, bare(readFile(t, file)))
		}
	}
	return examples
}

// partsOf reports whether each piece of the code is in an example.
func partsOf(examples []string, code string) bool {
	for _, piece := range pieces(code) {
		if !slices.ContainsFunc(examples, func(example string) bool { return strings.Contains(example, piece) }) {
			return false
		}
	}
	return true
}

// A recipe is one file of a page. The others show more than one thing.
func TestRecipesAreShort(t *testing.T) {
	t.Parallel()
	files := append(glob(t, "examples/*/main.go"), glob(t, "examples/heavy/*/main.go")...)
	require.Greater(t, len(files), 10)
	for _, file := range files {
		switch filepath.Base(filepath.Dir(file)) {
		case "competition", "flashsale", "quickstart":
		default:
			require.LessOrEqual(t, strings.Count(readFile(t, file), "\n"), 60, file)
		}
	}
}

// README names the servers that operations has as run.
func TestReadmeServersWereRun(t *testing.T) {
	t.Parallel()
	rows := readFile(t, "docs", "operations.md")
	for _, file := range []string{"README.md", "README.zh-CN.md"} {
		found := regexp.MustCompile(`(Redis|Valkey) (\d+\.\d)(?:,| and|、| 和)|(Redis|Valkey) (\d+\.\d)(?:\]|。)`).
			FindAllStringSubmatch(readFile(t, file), -1)
		require.Len(t, found, 3, file)
		for _, one := range found {
			row := regexp.MustCompile(`(?m)^\| ` + one[1] + one[3] + `[^|]*\| ` + regexp.QuoteMeta(one[2]+one[4]) +
				`\.\d.*$`).FindString(rows)
			require.NotEmpty(t, row, "%s: %s", file, one[0])
			require.NotContains(t, row, "not yet", file)
		}
	}
}

// A reader is through with a README in a few minutes. Both have the same code.
func TestReadmes(t *testing.T) {
	t.Parallel()
	var code [2][]string
	for i, file := range []string{"README.md", "README.zh-CN.md"} {
		text := readFile(t, file)
		require.LessOrEqual(t, strings.Count(text, "\n"), 150, file)
		require.LessOrEqual(t, utf8.RuneCountInString(text), 8000, file)
		for _, block := range testkit.CodeBlocks(t, file) {
			code[i] = append(code[i], bare(block))
		}
	}
	require.Equal(t, code[0], code[1])
}

var aComment = regexp.MustCompile(`(^|\s)//( .*)?$`)

// bare returns code without comments, indentation and empty lines.
func bare(code string) string { return strings.Join(pieces(code), "\n") }

// pieces returns what bare does, in pieces: a line that has only a comment ends
// one.
func pieces(code string) (all []string) {
	var piece []string
	end := func() {
		if len(piece) > 0 {
			all = append(all, strings.Join(piece, "\n"))
		}
		piece = nil
	}
	for line := range strings.Lines(code) {
		text := strings.TrimSpace(aComment.ReplaceAllString(strings.TrimRight(line, "\n"), ""))
		switch {
		case text != "":
			piece = append(piece, text)
		case strings.TrimSpace(line) != "":
			end()
		}
	}
	end()
	return all
}

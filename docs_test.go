package relock_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
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
	for _, file := range []string{"guarantees.md", "proof.md", "etcd.md", "fencing.md", "design.md", "protocol.md", "queue.md", "operations.md", "routes.md"} {
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

// The table of options and kinds in the package's documentation is right.
func TestTableOfOptions(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	clients := []*relock.Client{c, locktest.Unconnected(t), locktest.Unconnected(t)}
	validate := map[string]func(opt relock.LockOption) error{
		"RedisLock":     func(opt relock.LockOption) error { return relock.NewRedisLock("k", c, opt).Validate() },
		"ReentrantLock": func(opt relock.LockOption) error { return relock.NewReentrantLock("k", c, opt).Validate() },
		"RWLock":        func(opt relock.LockOption) error { return relock.NewRWLock("k", c, opt).Validate() },
		"MultiLock":     func(opt relock.LockOption) error { return relock.NewMultiLock([]string{"k"}, c, opt).Validate() },
		"RedLock":       func(opt relock.LockOption) error { return relock.NewRedLock("k", clients, opt).Validate() },
		"Locker":        func(opt relock.LockOption) error { _, err := relock.NewLocker(c, opt); return err },
	}
	options := map[string]relock.LockOption{
		"WithBlock": relock.WithBlock(), "WithBlockTimeout": relock.WithBlockTimeout(time.Second), "WithPollInterval": relock.WithPollInterval(time.Second),
		"WithExpiry": relock.WithExpiry(10 * time.Second), "WithWatchdog": relock.WithWatchdog(10 * time.Second), "WithMaxHold": relock.WithMaxHold(time.Minute),
		"WithMinHold": relock.WithMinHold(time.Second), "WithLabel": relock.WithLabel("l"), "WithFair": relock.WithFair(), "WithFencing": relock.WithFencing(),
		"WithQueueLimit": relock.WithQueueLimit(1), "WithReplicas": relock.WithReplicas(1, time.Second),
		"WithMaxLease": relock.WithMaxLease(time.Minute),
	}
	require.Len(t, lockspec.OptionNames, len(options))
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var kinds []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "//"))
		switch {
		case len(cells) == len(validate) && cells[0] == "RedisLock":
			kinds = cells
		case len(cells) == len(validate)+1 && options[cells[0]] != nil:
			for i, cell := range cells[1:] {
				err := validate[kinds[i]](options[cells[0]])
				require.Equal(t, cell != "no", err == nil, "%s of a %s: %v", cells[0], kinds[i], err)
			}
			delete(options, cells[0])
		}
	}
	require.Empty(t, options, "are not in the table")
}

// Each default and limit that a doc comment states is right.
func TestDocumentedDefaults(t *testing.T) {
	t.Parallel()
	client := locktest.Unconnected(t)
	c := locktest.Config(client)
	s := lockspec.Resolve(lockspec.Options{}, lockspec.Options{}, lockspec.Quorum, &lockspec.Problems{})
	want := map[string]string{
		"WithMaxIdle":        fmt.Sprint(c.MaxIdle),
		"WithMaxActive":      fmt.Sprint(c.MaxActive),
		"WithIdleTimeout":    seconds(c.IdleTimeout),
		"WithDialTimeout":    seconds(c.DialTimeout),
		"WithCommandTimeout": seconds(c.CommandTimeout),
		"WithDatabase":       fmt.Sprint(c.Database),
		"WithKeyPrefix":      fmt.Sprintf("%q", locktest.Prefix(client)),
		"WithPollInterval":   s.Poll.String(),
		"WithWatchdog":       seconds(s.Lease),
		"WithMaxLease":       seconds(s.MaxLease),
		"WithUsername":       "the", // server's default user
	}
	docs, got := map[string]string{}, map[string]string{}
	stated := regexp.MustCompile(`The\s+default\s+is\s+([^\s,]+?)[.,]?(\s|$)`)
	for _, file := range []string{"options.go", "lock_options.go", "watchdog.go", "hold.go", "lock.go", "reentrant.go", "multilock.go", "redlock.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Doc == nil {
				continue
			}
			doc := strings.Join(strings.Fields(f.Doc.Text()), " ")
			docs[f.Name.Name] = doc
			if match := stated.FindStringSubmatch(doc); match != nil {
				got[f.Name.Name] = match[1]
			}
		}
	}
	require.Equal(t, want, got)
	for limit, names := range map[string]string{
		"10ms to 10 years":               "WithExpiry WithWatchdog WithMinHold WithMaxLease",
		"at most 1024 bytes":             "WithKeyPrefix",
		"1 to 256 bytes":                 "ContextWithOwner",
		"at most 256 bytes":              "WithLabel",
		"1ms to a quarter of the lease":  "WithPollInterval",
		"10ms to a quarter of the lease": "WithReplicas",
		"1 to a million":                 "WithQueueLimit",
		"1 to 1024 bytes":                "NewRedisLock NewReentrantLock NewMultiLock NewRedLock",
		"1 to 100 different ones":        "NewMultiLock",
		"3 or more":                      "NewRedLock",
	} {
		for _, name := range strings.Fields(names) {
			require.Contains(t, docs[name], limit, name)
		}
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }

// The README states what a program that imports relock downloads and compiles.
func TestConsumer(t *testing.T) {
	t.Parallel()
	root, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module example.com/consumer\n\ngo 1.25.0\n\nrequire github.com/relock-go/relock v0.1.0\n\nreplace github.com/relock-go/relock => "+root+"\n")
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

	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	require.NoError(t, err)
	const ownLines = 2 // of relock itself, which a replaced module does not have
	require.LessOrEqual(t, strings.Count(string(sums), "\n")+ownLines, 14, "lines in go.sum")

	modules := strings.Fields(run("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "."))
	slices.Sort(modules)
	require.Equal(t, []string{
		"example.com/consumer", "github.com/gomodule/redigo", "github.com/google/uuid", "github.com/petermattis/goid", "github.com/relock-go/relock",
	}, slices.Compact(modules), "modules compiled in")
}

// Code and scripts use the terms of the field: scripts/words.txt has the words
// to avoid. Comments are at most 80 columns wide.
func TestWords(t *testing.T) {
	t.Parallel()
	words := avoided(t)
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if path == "docs" || path == ".git" {
				return fs.SkipDir
			}
			return err
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".lua" && ext != ".sh" {
			return nil
		}
		text, err := os.ReadFile(path)
		lower := strings.ToLower(string(text))
		for word, pattern := range words {
			if strings.Contains(lower, strings.ToLower(word)) && pattern.Match(text) {
				t.Errorf("%s has %q: %s", path, word, pattern.Find(text))
			}
		}
		requireNarrow(t, path, string(text))
		return err
	}))
}

// avoided returns a pattern for each word of scripts/words.txt: the word, or a
// part of an identifier.
func avoided(t *testing.T) map[string]*regexp.Regexp {
	t.Helper()
	text, err := os.ReadFile("scripts/words.txt")
	require.NoError(t, err)
	words := map[string]*regexp.Regexp{}
	for line := range strings.Lines(string(text)) {
		word, _, ok := strings.Cut(line, "\t")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		quoted, title := regexp.QuoteMeta(word), regexp.QuoteMeta(strings.ToUpper(word[:1])+word[1:])
		words[word] = regexp.MustCompile(`\b(?i:` + quoted + `)\b|[a-z]` + title + `(?:[A-Z]|\b)|\b` + quoted + `[A-Z]|\b` + title + `[A-Z]`)
	}
	require.Greater(t, len(words), 20)
	return words
}

// requireNarrow checks the lines that are comments only. A tab is four columns.
// Examples quote what is printed, and some text cannot be broken.
func requireNarrow(t *testing.T, path, text string) {
	t.Helper()
	comment := regexp.MustCompile(`^\s*(//|--) `)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		wide := len([]rune(strings.ReplaceAll(line, "\t", "    "))) > 80
		if wide && comment.MatchString(line) && strings.Contains(strings.TrimLeft(line, "\t /-"), " ") && !strings.Contains(line, "// relock: ") && !strings.Contains(line, "//\t") {
			t.Errorf("%s: wider than 80 columns: %s", path, line)
		}
	}
}

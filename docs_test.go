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
	"github.com/relock-go/relock/internal/test/locktest"
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
	files := glob(t, "docs/*.md")
	require.Greater(t, len(files), 10)
	for _, file := range files {
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

// The table of options and kinds in the package's documentation is right.
func TestTableOfOptions(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	clients := []*relock.Client{c, locktest.Unconnected(t), locktest.Unconnected(t)}
	validate := map[string]func(opt relock.LockOption) error{
		"RedisLock":     func(opt relock.LockOption) error { return relock.NewRedisLock("k", c, opt).Validate() },
		"ReentrantLock": func(opt relock.LockOption) error { return relock.NewReentrantLock("k", c, opt).Validate() },
		"RWLock":        func(opt relock.LockOption) error { return relock.NewRWLock("k", c, opt).Validate() },
		"Semaphore":     func(opt relock.LockOption) error { return relock.NewSemaphore("k", 1, c, opt).Validate() },
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
	declared := 0
	for _, file := range []string{"lock_options.go", "watchdog.go"} {
		declared += len(regexp.MustCompile(`(?m)^func With.*\) LockOption `).FindAllString(readFile(t, file), -1))
	}
	require.Len(t, options, declared)
	var kinds []string
	for line := range strings.Lines(readFile(t, "doc.go")) {
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
	c := relock.ConfigOf(client)
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

// A program that imports relock downloads and compiles no more than this.
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

	const ownLines = 2 // of relock itself, which a replaced module does not have
	require.LessOrEqual(t, strings.Count(readFile(t, dir, "go.sum"), "\n")+ownLines, 14, "lines in go.sum")

	modules := strings.Fields(run("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "."))
	slices.Sort(modules)
	require.Equal(t, []string{
		"example.com/consumer", "github.com/gomodule/redigo", "github.com/google/uuid", "github.com/petermattis/goid", "github.com/relock-go/relock",
	}, slices.Compact(modules), "modules compiled in")
}

// Code, scripts, models and documents use the terms of the field:
// scripts/words.txt has the words to avoid. Comments are at most 80 columns
// wide, and Markdown at most 100.
func TestWords(t *testing.T) {
	t.Parallel()
	words := avoided(t)
	files := map[string]int{}
	eachFile(t, func(path string) {
		kind := filepath.Ext(path)
		switch {
		case slices.Contains([]string{".go", ".lua", ".sh", ".md", ".pml", ".yml", ".diff"}, kind):
		case path == "Makefile" || path == filepath.Join(".ci", "run"):
		default:
			return
		}
		files[kind]++
		text := readFile(t, path)
		flat := flatten(text)
		lower := strings.ToLower(flat)
		require.Len(t, lower, len(flat), path)
		for word, pattern := range words {
			for _, at := range indexes(lower, strings.ToLower(word)) {
				around := flat[max(0, at-1):min(len(flat), at+len(word)+1)]
				if pattern.MatchString(around) {
					t.Errorf("%s has %q: %s", path, word, around)
				}
			}
		}
		requireNarrow(t, path, text)
	})
	for _, kind := range []string{".go", ".lua", ".sh", ".md", ".pml", ".yml", ".diff", ""} {
		require.NotZero(t, files[kind], kind)
	}
}

// flatten puts a text into one line, without the marks of comments. A phrase
// may go on in the next line.
func flatten(text string) string {
	var flat strings.Builder
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 0 && slices.Contains([]string{"//", "--", "#", "*"}, words[0]) {
			words = words[1:]
		}
		for _, word := range words {
			flat.WriteString(" " + word)
		}
	}
	return flat.String()
}

// indexes returns where a text contains a word.
func indexes(text, word string) (all []int) {
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return all
		}
		all = append(all, from+at)
		from += at + len(word)
	}
}

// avoided returns a pattern for each entry of scripts/words.txt: the word, or a
// part of an identifier.
func avoided(t *testing.T) map[string]*regexp.Regexp {
	t.Helper()
	words := map[string]*regexp.Regexp{}
	for line := range strings.Lines(readFile(t, "scripts", "words.txt")) {
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

// requireNarrow checks the width of comments and of Markdown. A tab is four
// columns. Examples quote what is printed, and some text cannot be broken.
func requireNarrow(t *testing.T, path, text string) {
	t.Helper()
	if strings.HasSuffix(path, ".md") {
		requireNarrowMarkdown(t, path, text)
		return
	}
	comment := regexp.MustCompile(`^\s*(//|--|#) `)
	if strings.HasSuffix(path, ".diff") {
		comment = regexp.MustCompile(`^Rule: `) // the rest is code, or cannot be broken
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		wide := len([]rune(strings.ReplaceAll(line, "\t", "    "))) > 80
		if wide && comment.MatchString(line) && strings.Contains(strings.TrimLeft(line, "\t /-#"), " ") && !strings.Contains(line, "// relock: ") && !strings.Contains(line, "//\t") {
			t.Errorf("%s: wider than 80 columns: %s", path, line)
		}
	}
}

// requireNarrowMarkdown leaves out tables, code, images, what programs write,
// and Chinese.
func requireNarrowMarkdown(t *testing.T, path, text string) {
	t.Helper()
	if path == "README.zh-CN.md" || strings.HasPrefix(path, filepath.Join("bench", "results")) {
		return
	}
	left := regexp.MustCompile("(?s)\n```.*?\n```\n|<!-- begin:.*?<!-- end:|\n!?\\[[^\n]*\\)").ReplaceAllString(text, "\n\n")
	for line := range strings.Lines(left) {
		if len([]rune(line)) > 101 && !strings.HasPrefix(line, "|") {
			t.Errorf("%s: wider than 100 columns: %s", path, line)
		}
	}
}

// The comment of a function whose only result is a bool says what it "reports
// whether". If a bool is one of several results, its comment may leave it out,
// but never says "returns true".
func TestBooleansReportWhether(t *testing.T) {
	t.Parallel()
	checked := 0
	returns := regexp.MustCompile(`(?:returns?|reports) (?:true|false)\b`)
	eachGoFile(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			name, doc, results := "", (*ast.CommentGroup)(nil), (*ast.FieldList)(nil)
			switch n := n.(type) {
			case *ast.FuncDecl:
				name, doc, results = n.Name.Name, n.Doc, n.Type.Results
			case *ast.Field: // a method of an interface
				if f, ok := n.Type.(*ast.FuncType); ok && len(n.Names) > 0 {
					name, doc, results = n.Names[0].Name, n.Doc, f.Results
				}
			}
			bools, others := countBools(results)
			if doc == nil || bools == 0 {
				return true
			}
			checked++
			text := strings.Join(strings.Fields(doc.Text()), " ")
			if only := bools == 1 && others == 0; only && !strings.Contains(text, "reports whether") || returns.MatchString(text) {
				t.Errorf("%s: the comment of %s does not say what it reports whether: %s", path, name, text)
			}
			return true
		})
	})
	require.Greater(t, checked, 100)
}

func countBools(results *ast.FieldList) (bools, others int) {
	if results == nil {
		return 0, 0
	}
	for _, field := range results.List {
		n := max(1, len(field.Names))
		if is, ok := field.Type.(*ast.Ident); ok && is.Name == "bool" {
			bools += n
		} else {
			others += n
		}
	}
	return bools, others
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

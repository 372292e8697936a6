package relock_test

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
		words[word] = regexp.MustCompile(`\b(?i:` + quoted + `)\b|[a-z]` + title + `(?:[A-Z]|\b)|` +
			`\b` + quoted + `[A-Z]|\b` + title + `[A-Z]`)
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
		if wide && comment.MatchString(line) && strings.Contains(strings.TrimLeft(line, "\t /-#"), " ") &&
			!strings.Contains(line, "// relock: ") && !strings.Contains(line, "//\t") {
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
	left := regexp.MustCompile("(?s)\n```.*?\n```\n|<!-- begin:.*?<!-- end:|\n!?\\[[^\n]*\\)").
		ReplaceAllString(text, "\n\n")
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
			if only := bools == 1 && others == 0; only && !strings.Contains(text, "reports whether") ||
				returns.MatchString(text) {
				t.Errorf("%s: the comment of %s does not say what it reports whether: %s",
					path, name, text)
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

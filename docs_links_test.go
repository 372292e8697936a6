package relock_test

import (
	"go/ast"
	"go/build"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/relock-go/relock"

// linked is the packages whose comments were read, or to which a link leads.
type linked struct {
	*testing.T
	packages map[string]*doc.Package // by import path
	links    int
}

// A doc link leads to something that is there, in this package, in another one
// of any module, or in one that is imported. Without it, the reader sees the
// brackets.
func TestDocumentedLinks(t *testing.T) {
	t.Parallel()
	all, names := &linked{T: t, packages: map[string]*doc.Package{}}, map[string][]string{}
	eachFile(t, func(file string) {
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			names[filepath.Dir(file)] = append(names[filepath.Dir(file)], file)
		}
	})
	comments := map[string][]*ast.CommentGroup{}
	for folder, files := range names {
		at := path.Join(module, filepath.ToSlash(folder))
		comments[at] = all.read(at, files)
	}
	for at, groups := range comments {
		for _, group := range groups {
			all.check(at, group.Text())
		}
	}
	require.Greater(t, all.links, 300)
}

// read parses a package, and returns the comments of what it declares.
func (l *linked) read(at string, names []string) (comments []*ast.CommentGroup) {
	l.Helper()
	files, set := []*ast.File{}, token.NewFileSet()
	for _, name := range names {
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		require.NoError(l, err)
		files = append(files, file)
		ast.Inspect(file, func(n ast.Node) bool {
			if group := documents(n); group != nil {
				comments = append(comments, group)
			}
			return true
		})
	}
	found, err := doc.NewFromFiles(set, files, at, doc.PreserveAST)
	require.NoError(l, err)
	l.packages[at] = found
	return comments
}

// documents returns the comment of a package or a declaration, or nil.
func documents(n ast.Node) *ast.CommentGroup {
	switch n := n.(type) {
	case *ast.File:
		return n.Doc
	case *ast.GenDecl:
		return n.Doc
	case *ast.FuncDecl:
		return n.Doc
	case *ast.TypeSpec:
		return n.Doc
	case *ast.ValueSpec:
		return n.Doc
	case *ast.Field:
		return n.Doc
	}
	return nil
}

// bracketed is a doc link that leads nowhere, as the reader sees it.
var bracketed = regexp.MustCompile(`\[\*?(?:[a-z]\w*\.)?[A-Z]\w*(?:\.[A-Z]\w*)?\]`)

// check checks the links of a comment of a package.
func (l *linked) check(at, text string) {
	l.Helper()
	eachText(l.packages[at].Parser().Parse(text).Content, func(part comment.Text) {
		switch part := part.(type) {
		case comment.Plain:
			for _, found := range bracketed.FindAllString(string(part), -1) {
				l.Errorf("%s: %s leads nowhere", at, found)
			}
		case *comment.DocLink:
			l.links++
			if part.ImportPath != "" && !l.has(part) {
				l.Errorf("%s: %s is not in %s", at, part.Name, part.ImportPath)
			}
		}
	})
}

// has reports whether what a link to another package names is there.
func (l *linked) has(link *comment.DocLink) bool {
	l.Helper()
	if l.packages[link.ImportPath] == nil {
		found, err := build.Import(link.ImportPath, ".", 0)
		require.NoError(l, err)
		for i, name := range found.GoFiles {
			found.GoFiles[i] = filepath.Join(found.Dir, name)
		}
		l.read(link.ImportPath, found.GoFiles)
	}
	return link.Name == "" || l.packages[link.ImportPath].Parser().LookupSym(link.Recv, link.Name)
}

// eachText calls f with each text of the blocks of a comment.
func eachText(blocks []comment.Block, f func(comment.Text)) {
	for _, block := range blocks {
		var texts []comment.Text
		switch block := block.(type) {
		case *comment.Heading:
			texts = block.Text
		case *comment.Paragraph:
			texts = block.Text
		case *comment.List:
			for _, item := range block.Items {
				eachText(item.Content, f)
			}
		}
		for _, text := range texts {
			f(text)
		}
	}
}

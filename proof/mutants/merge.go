package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A build takes far longer than a test. So all faults in Go go into one build.
// The function of a fault gets a second body, and the environment of a run
// chooses the fault.

// faultVariable names the fault of a run in its environment.
const faultVariable = "RELOCK_FAULT"

// merge returns the sources with the faults of Go, by their path from the root.
func merge(root string, mutants []mutant) (changed map[string]string, err error) {
	changed = map[string]string{}
	for file, faults := range byFile(mutants) {
		s, err := read(root, file)
		if err != nil {
			return nil, err
		}
		bodies, err := s.bodies(faults)
		if err != nil {
			return nil, err
		}
		changed[file] = s.with(bodies)
		changed[path.Join(path.Dir(file), "chosen_fault.go")] = chooser(s.syntax.Name.Name)
	}
	return changed, nil
}

func byFile(mutants []mutant) map[string][]mutant {
	files := map[string][]mutant{}
	for _, m := range mutants {
		if !m.inScript() {
			files[m.file] = append(files[m.file], m)
		}
	}
	return files
}

func chooser(pkg string) string {
	return fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar chosenFault = os.Getenv(%q)\n", pkg, faultVariable)
}

// source is a file of Go.
type source struct {
	name, text string
	files      *token.FileSet
	syntax     *ast.File
}

func read(root, name string) (s source, err error) {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return s, err
	}
	return parse(name, string(text))
}

func parse(name, text string) (s source, err error) {
	s = source{name: name, text: text, files: token.NewFileSet()}
	s.syntax, err = parser.ParseFile(s.files, name, text, parser.SkipObjectResolution)
	return s, err
}

// body is that of a function with a fault in it.
type body struct {
	fault string
	text  string
	of    *ast.FuncDecl
}

// bodies returns a body for each fault.
func (s source) bodies(faults []mutant) (bodies []body, err error) {
	for _, m := range faults {
		b, err := s.faulty(m)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, b)
	}
	return bodies, nil
}

func (s source) faulty(m mutant) (body, error) {
	start, err := m.start(s.text)
	if err != nil {
		return body{}, err
	}
	before, instead, after := m.change()
	end := start + len(m.old) - after
	start += before
	for _, d := range s.syntax.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || hasLabels(f) {
			continue
		}
		if from, to := s.inside(f); from <= start && end <= to {
			return body{m.name, s.text[from:start] + instead + s.text[end:to], f}, nil
		}
	}
	return body{}, fmt.Errorf("%s: changes more than the body of one function, or one with labels", m.path())
}

// change returns the replaced part of the old text. It leaves the first and
// last bytes out that the fault does not change.
func (m mutant) change() (before int, instead string, after int) {
	most := min(len(m.old), len(m.new))
	for before < most && m.old[before] == m.new[before] {
		before++
	}
	for after < most-before && m.old[len(m.old)-1-after] == m.new[len(m.new)-1-after] {
		after++
	}
	return before, m.new[before : len(m.new)-after], after
}

// hasLabels reports whether a second body would have the labels of the first,
// which no function may.
func hasLabels(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		_, label := n.(*ast.LabeledStmt)
		found = found || label
		return !found
	})
	return found
}

// inside is where the body of a function is in the text, without its braces.
func (s source) inside(f *ast.FuncDecl) (from, to int) {
	return s.files.Position(f.Body.Lbrace).Offset + 1, s.files.Position(f.Body.Rbrace).Offset
}

// with returns the text with the bodies in it, each before that of its
// function. A compiler error in one names the fault, and any other one names
// the line of the file.
func (s source) with(bodies []body) string {
	slices.SortStableFunc(bodies, func(a, b body) int { return cmp.Compare(a.of.Pos(), b.of.Pos()) })
	var out strings.Builder
	done := 0
	for _, b := range bodies {
		from, _ := s.inside(b.of)
		out.WriteString(s.text[done:from])
		fmt.Fprintf(&out, " if chosenFault == %q {\n//line %s:1\n%s\n%s}\n//line %s:%d\n",
			b.fault, b.fault, b.text, end(b.of), path.Base(s.name), s.files.Position(b.of.Body.Lbrace).Line)
		done = from
	}
	return out.String() + s.text[done:]
}

// end keeps a function from continuing with its next body. One that returns a
// value ends with a return, or would not build.
func end(f *ast.FuncDecl) string {
	if f.Type.Results == nil {
		return "return\n"
	}
	return "panic(\"a fault without a return\")\n"
}

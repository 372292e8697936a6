package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// castBack returns the exported fields, parameters and results of type any that
// another package asserts to be of some type, each with the files that do.
func castBack(packages []*source) (found []string) {
	ours := map[string]string{}
	for _, p := range packages {
		ours[p.types.Path()] = p.folder
	}
	casters := map[string][]string{}
	for _, p := range packages {
		t := tracer{p, ours, sourcesOf(p)}
		for value, files := range t.casts() {
			casters[value] = append(casters[value], files...)
		}
	}
	for value, files := range casters {
		slices.Sort(files)
		found = append(found, value+": "+strings.Join(slices.Compact(files), ", "))
	}
	slices.Sort(found)
	return found
}

// tracer finds where the values come from that a package asserts.
type tracer struct {
	*source
	ours map[string]string // the folder of each package of the report, by its path
	from map[types.Object][]ast.Expr
}

func (t tracer) casts() map[string][]string {
	casters := map[string][]string{}
	for _, file := range t.files {
		for n := range ast.Preorder(file) {
			if a, ok := n.(*ast.TypeAssertExpr); ok && isAny(t.info.TypeOf(a.X)) {
				at := t.fset.Position(a.Pos())
				for _, value := range t.origins(a.X, 0) {
					casters[value] = append(casters[value], fmt.Sprintf("%s:%d", relative(at.Filename, t.folder), at.Line))
				}
			}
		}
	}
	return casters
}

func relative(path, folder string) string {
	return folder + path[strings.LastIndexByte(path, '/'):]
}

func isAny(t types.Type) bool {
	if _, parameter := t.(*types.TypeParam); parameter {
		return false
	}
	i, ok := t.Underlying().(*types.Interface)
	return ok && i.Empty()
}

// origins follows local variables to the fields, results and parameters of
// other packages that they come from.
func (t tracer) origins(e ast.Expr, depth int) []string {
	switch e := ast.Unparen(e).(type) {
	case *ast.SelectorExpr:
		return t.foreign(e, e.Sel)
	case *ast.CallExpr:
		if s, ok := ast.Unparen(e.Fun).(*ast.SelectorExpr); ok {
			return t.foreign(s, s.Sel)
		}
	case *ast.IndexExpr:
		return t.origins(e.X, depth)
	case *ast.Ident:
		return t.variable(t.info.ObjectOf(e), depth)
	}
	return nil
}

func (t tracer) variable(v types.Object, depth int) (found []string) {
	const cycle = 10 // x = y; y = x
	if depth > cycle {
		return nil
	}
	for _, e := range t.from[v] {
		found = append(found, t.origins(e, depth+1)...)
	}
	return append(found, t.parameter(v)...)
}

// foreign names a field, function or method, if it is that of another package.
func (t tracer) foreign(e *ast.SelectorExpr, name *ast.Ident) []string {
	object := t.info.Uses[name]
	if object == nil || object.Pkg() == nil || object.Pkg() == t.types || t.ours[object.Pkg().Path()] == "" {
		return nil
	}
	where := t.ours[object.Pkg().Path()] + " "
	if s := t.info.Selections[e]; s != nil {
		of := types.TypeString(s.Recv(), func(*types.Package) string { return "" })
		where += strings.TrimPrefix(of, "*") + "."
	}
	return []string{where + name.Name}
}

// parameter names the methods of interfaces of other packages that have v as a
// parameter.
func (t tracer) parameter(v types.Object) (found []string) {
	for _, d := range t.info.Defs {
		f, ok := d.(*types.Func)
		if !ok || f.Signature().Recv() == nil || !has(f.Signature().Params(), v) {
			continue
		}
		for _, p := range t.types.Imports() {
			if folder := t.ours[p.Path()]; folder != "" {
				found = append(found, implemented(folder, p, f)...)
			}
		}
	}
	return found
}

func has(all *types.Tuple, v types.Object) bool {
	return slices.ContainsFunc(slices.Collect(all.Variables()), func(one *types.Var) bool { return one == v })
}

// implemented names the methods of interfaces of p that f implements.
func implemented(folder string, p *types.Package, f *types.Func) (found []string) {
	for _, name := range p.Scope().Names() {
		i, ok := p.Scope().Lookup(name).Type().Underlying().(*types.Interface)
		if !ok || !types.Implements(f.Signature().Recv().Type(), i) {
			continue
		}
		if m, _, _ := types.LookupFieldOrMethod(i, false, p, f.Name()); m != nil {
			found = append(found, folder+" "+name+"."+f.Name())
		}
	}
	return found
}

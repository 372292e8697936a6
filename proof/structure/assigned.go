package main

import (
	"go/ast"
	"go/types"
)

// sourcesOf returns what is assigned to each variable of a package, or passed
// as that parameter by the package itself.
func sourcesOf(s *source) map[types.Object][]ast.Expr {
	from := map[types.Object][]ast.Expr{}
	put := func(left, right ast.Expr) {
		if name, ok := left.(*ast.Ident); ok && right != nil {
			v := s.info.ObjectOf(name)
			from[v] = append(from[v], right)
		}
	}
	for _, file := range s.files {
		for n := range ast.Preorder(file) {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					put(left, n.Rhs[min(i, len(n.Rhs)-1)])
				}
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if len(n.Values) > 0 {
						put(name, n.Values[min(i, len(n.Values)-1)])
					}
				}
			case *ast.RangeStmt:
				put(n.Value, n.X) // an element
			case *ast.CallExpr:
				s.pass(n, from)
			}
		}
	}
	return from
}

func (s *source) pass(call *ast.CallExpr, to map[types.Object][]ast.Expr) {
	f, ok := s.called(call).(*types.Func)
	if !ok || f.Pkg() != s.types || f.Signature().Params().Len() == 0 {
		return
	}
	all := f.Origin().Signature().Params()
	for i, arg := range call.Args {
		v := all.At(min(i, all.Len()-1))
		to[v] = append(to[v], arg)
	}
}

func (s *source) called(call *ast.CallExpr) types.Object {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return s.info.Uses[f]
	case *ast.SelectorExpr:
		return s.info.Uses[f.Sel]
	}
	return nil
}

package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// references returns, for each file, those whose declarations it names.
func (s *source) references() [][]bool {
	to := make([][]bool, len(s.files))
	for i := range to {
		to[i] = make([]bool, len(s.files))
	}
	for name, object := range s.info.Uses {
		if f, ok := object.(*types.Func); ok {
			object = f.Origin()
		}
		if from, at := s.fileAt(name.Pos()), s.fileAt(object.Pos()); from >= 0 && at >= 0 {
			to[from][at] = true
		}
	}
	return to
}

// fileAt returns the number of the file at a position, or -1 if it is that of
// another package.
func (s *source) fileAt(at token.Pos) int {
	return slices.IndexFunc(s.files, func(f *ast.File) bool { return f.FileStart <= at && at <= f.FileEnd })
}

// knot returns the size of the largest strongly connected component: the most
// nodes of which each is reached from each other one.
func knot(to [][]bool) (largest int) {
	reach := closure(to)
	for i := range reach {
		size := 1
		for j := range reach {
			if j != i && reach[i][j] && reach[j][i] {
				size++
			}
		}
		largest = max(largest, size)
	}
	return largest
}

// closure is the way of Warshall. Packages have some 40 files at most.
func closure(to [][]bool) [][]bool {
	reach := make([][]bool, len(to))
	for i := range to {
		reach[i] = slices.Clone(to[i])
	}
	for over := range reach {
		for i := range reach {
			for j := range reach {
				reach[i][j] = reach[i][j] || reach[i][over] && reach[over][j]
			}
		}
	}
	return reach
}

// spread returns the types with methods in more files than most, each with the
// number of its files.
func (s *source) spread(most int) (found []string) {
	files := map[string]map[int]bool{}
	for i, file := range s.files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				name := receiver(f)
				if files[name] == nil {
					files[name] = map[int]bool{}
				}
				files[name][i] = true
			}
		}
	}
	for name, in := range files {
		if len(in) > most {
			found = append(found, fmt.Sprintf("%s %d", name, len(in)))
		}
	}
	slices.Sort(found)
	return found
}

func receiver(f *ast.FuncDecl) string {
	name := strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*")
	name, _, _ = strings.Cut(name, "[")
	return name
}

func (s *source) longest() (name string, lines int) {
	for _, f := range s.files {
		if file := s.fset.File(f.FileStart); file.LineCount() > lines {
			name, lines = filepath.Base(file.Name()), file.LineCount()
		}
	}
	return name, lines
}

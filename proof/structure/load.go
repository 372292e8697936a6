package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is the checked source of a package.
type source struct {
	folder string
	fset   *token.FileSet
	files  []*ast.File
	types  *types.Package
	info   *types.Info
}

// listed is a package as go list prints it. Export is a file with its compiled
// types.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// load checks the packages in the folders, in the order of their imports.
func load(root string, folders []string) ([]*source, error) {
	all, err := list(root, folders)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	from := importer.ForCompiler(fset, "gc", open(all))
	var sources []*source
	for _, l := range all {
		if l.DepOnly {
			continue
		}
		s, err := parse(root, fset, l)
		if err == nil {
			err = s.check(l.ImportPath, from)
		}
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}

func list(root string, folders []string) (all []listed, err error) {
	args := []string{"list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}
	for _, folder := range folders {
		args = append(args, "./"+folder)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
}

// open returns the function by which an importer reads compiled types.
func open(all []listed) importer.Lookup {
	files := map[string]string{}
	for _, l := range all {
		files[l.ImportPath] = l.Export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

func parse(root string, fset *token.FileSet, l listed) (*source, error) {
	folder, err := filepath.Rel(root, l.Dir)
	if err != nil {
		return nil, err
	}
	s := &source{folder: folder, fset: fset}
	for _, name := range l.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, file)
	}
	return s, nil
}

func (s *source) check(path string, from types.Importer) (err error) {
	s.info = &types.Info{
		Types:      map[ast.Expr]types.TypeAndValue{},
		Defs:       map[*ast.Ident]types.Object{},
		Uses:       map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	s.types, err = (&types.Config{Importer: from}).Check(path, s.fset, s.files, s.info)
	return err
}

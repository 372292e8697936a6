package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is a fault that is put into the code, and the test that must fail
// because of it.
type mutant struct {
	name     string // of its file below faults, without the extension
	rule     string // that it breaks
	see      string // the section that has the rule
	in       string // the folder of the test, from the root of the project; "" is the root package
	test     string // the name of a test, and perhaps those of subtests as -test.run takes them
	file     string // that has the fault, from the root of the project
	old, new string // whole lines; old must occur exactly once
}

// faults is the folder of the mutants, from the root of the project.
const faults = "proof/mutants/faults"

// load returns the mutants, in the order of their names.
func load(root string) (all []mutant, err error) {
	dir := filepath.Join(root, faults)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		m, err := parseMutant(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		m.name, err = filepath.Rel(dir, strings.TrimSuffix(path, ".diff"))
		m.name = filepath.ToSlash(m.name)
		all = append(all, m)
		return err
	})
	return all, err
}

// path is that of the mutant's file, from the root of the project.
func (m mutant) path() string { return faults + "/" + m.name + ".diff" }

// apply returns the file, and the file with the fault in it.
func (m mutant) apply(root string) (old, text string, err error) {
	source, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", "", err
	}
	old = string(source)
	start, err := m.start(old)
	if err != nil {
		return "", "", err
	}
	return old, old[:start] + m.new + old[start+len(m.old):], nil
}

// start is where the old lines are in the source.
func (m mutant) start(source string) (start int, err error) {
	lines, old := strings.SplitAfter(source, "\n"), strings.SplitAfter(m.old, "\n")
	old = old[:len(old)-1] // behind the last line
	offset, times := 0, 0
	for i, line := range lines {
		if i+len(old) <= len(lines) && slices.Equal(lines[i:i+len(old)], old) {
			start, times = offset, times+1
		}
		offset += len(line)
	}
	if times != 1 {
		return 0, fmt.Errorf("%s: %s has these lines %d times, not once:\n%s", m.path(), m.file, times, m.old)
	}
	return start, nil
}

func (m mutant) inScript() bool { return strings.HasSuffix(m.file, ".lua") }

// function is the test without its subtests.
func (m mutant) function() string {
	name, _, _ := strings.Cut(m.test, "/")
	return name
}

// pattern is the test for -test.run.
func (m mutant) pattern() string {
	name, subtests, ok := strings.Cut(m.test, "/")
	if !ok {
		return "^" + name + "$"
	}
	return "^" + name + "$/" + subtests
}

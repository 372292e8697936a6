// Command structure prints what the files of packages have to do with each
// other. For each package it prints the largest knot: files that all refer to
// each other, directly or by others of the knot. It also prints the longest
// file, and the types whose methods are in more than five files. At the end are
// the values of type any that another package casts back.
//
// The arguments are folders from the root of the project. Tests do not count.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/relock-go/relock/proof/internal/testbinary"
)

func main() {
	text, err := report(os.Args[1:])
	fmt.Print(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, "structure:", err)
		os.Exit(1)
	}
}

func report(folders []string) (string, error) {
	root, err := testbinary.Root()
	if err != nil {
		return "", err
	}
	packages, err := load(root, folders)
	if err != nil {
		return "", err
	}
	casts := castBack(packages)
	all := []string{fmt.Sprintf(row, "package", "files", "knot", "longest file", "types with methods in over 5 files")}
	for _, p := range packages {
		all = append(all, p.row())
	}
	all = append(all, fmt.Sprintf("values of any that another package casts back: %d", len(casts)))
	return strings.Join(append(all, casts...), "\n") + "\n", nil
}

const row = "%-25s %5v %5v  %-20s  %s"

func (s *source) row() string {
	name, lines := s.longest()
	text := fmt.Sprintf(row, s.folder, len(s.files), knot(s.references()),
		fmt.Sprintf("%3d %s", lines, name), strings.Join(s.spread(5), ", "))
	return strings.TrimRight(text, " ")
}

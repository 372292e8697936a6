package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// page returns the tables and the machine on which they were taken. The short
// form has only the main columns.
func page(r results, short bool) string {
	var w strings.Builder
	fmt.Fprintf(&w, "Medians of %d alternating runs on one machine: %s.\n%s.\n%s.\n\n",
		r.Runs, r.Machine, strings.Join(r.Machine.Libraries, ", "), r.Load)
	w.WriteString("Round brackets have the least and the most of the runs. " +
		"Square ones say how many times better the figure of a table's first row is;\n" +
		"below 1 it is worse. `-`: not seen, or the library has no such lock.\n\n")
	for _, t := range tables {
		t.write(&w, r, short)
	}
	writeAims(&w, r)
	return strings.TrimSpace(w.String()) + "\n"
}

// save writes results.md, results.svg and results.json.
func save(dir string, r results) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	svg, err := drawn(tables, r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range map[string]string{
		"results.md":   "# relock and other lock libraries\n\n" + page(r, false) + "\n![plot](results.svg)\n",
		"results.svg":  svg,
		"results.json": string(text) + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// The marks around a file's tables.
const (
	beginMark = "<!-- begin: written by make bench -->\n"
	endMark   = "<!-- end: written by make bench -->\n"
)

// insert puts the tables between the marks of a file.
func insert(path, tables string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, ok := betweenMarks(string(text), tables)
	if !ok {
		return fmt.Errorf("%s has no place for tables, between %q and %q", path, beginMark, endMark)
	}
	return os.WriteFile(path, []byte(changed), 0o644)
}

// betweenMarks replaces the text between the two marks, and reports whether
// both were found.
func betweenMarks(text, content string) (string, bool) {
	before, rest, begins := strings.Cut(text, beginMark)
	_, after, ends := strings.Cut(rest, endMark)
	return before + beginMark + content + endMark + after, begins && ends
}

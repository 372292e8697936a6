package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// page returns the tables and the machine on which they were taken. The short
// form has only the main columns.
func page(r results, short bool) string {
	var w strings.Builder
	fmt.Fprintf(&w, "Medians of %d alternating runs on one machine: %s. %s. %s.\n\n",
		r.Runs, r.Machine, strings.Join(r.Machine.Libraries, ", "), r.Load)
	w.WriteString("Round brackets have the least and the most of the runs. " +
		"Square ones say how many times better the figure of a table's first row is; " +
		"below 1 it is worse. `-`: not seen, or the library has no such lock.\n\n")
	for _, t := range tables {
		t.write(&w, r, short)
	}
	writeAims(&w, r)
	return wrapped(strings.TrimSpace(w.String()) + "\n")
}

// wrapped breaks lines at 100 columns, as the pages of docs have them. Those of
// tables stay.
func wrapped(text string) string {
	var w strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") {
			w.WriteString(line)
			continue
		}
		width := 0
		for _, word := range strings.Fields(line) {
			length := utf8.RuneCountInString(word)
			switch {
			case width == 0:
			case width+1+length > 100:
				w.WriteByte('\n')
				width = 0
			default:
				w.WriteByte(' ')
				width++
			}
			w.WriteString(word)
			width += length
		}
		w.WriteByte('\n')
	}
	return w.String()
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

package main

import (
	"fmt"
	"math"
	"strings"
)

// column is one figure of a scenario, for all libraries of a table.
type column struct {
	heading          string
	scenario, figure string
	unit             unit
	less             bool   // a smaller figure is better
	main             bool   // is also in the short form
	plotted          string // the title of its panel in the plot; "" if it has none
}

// table has a row for each library. The others' figures are compared with those
// of the first one.
type table struct {
	title     string
	text      string // describes the load
	libraries []string
	columns   []column
}

// write writes a table in Markdown, with the columns of which there are
// figures. The short form has only the main columns, and no table without any.
func (t table) write(w *strings.Builder, r results, short bool) {
	columns := t.shown(r, short)
	if len(columns) == 0 {
		return
	}
	fmt.Fprintf(w, "**%s** %s\n\n|", t.title, t.text)
	for _, c := range columns {
		fmt.Fprintf(w, " | %s", c.heading)
	}
	fmt.Fprintf(w, " |\n|---|%s\n", strings.Repeat("---|", len(columns)))
	for _, library := range t.libraries {
		fmt.Fprintf(w, "| %s", library)
		for _, c := range columns {
			fmt.Fprintf(w, " | %s", t.cell(r, c, library))
		}
		w.WriteString(" |\n")
	}
	w.WriteString("\n")
}

func (t table) shown(r results, short bool) (columns []column) {
	for _, c := range t.columns {
		if (c.main || !short) && r.Figures[c.scenario] != nil {
			columns = append(columns, c)
		}
	}
	return columns
}

// cell returns a figure with the range of its runs, and how many times better
// the figure of the first row is.
func (t table) cell(r results, c column, library string) string {
	text, ok := r.cell(c.scenario, library, c.figure, c.unit)
	if !ok {
		return "-"
	}
	return text + t.advantage(r, c, library)
}

// advantage returns how many times better the figure of the first row is, in
// brackets, or "".
func (t table) advantage(r results, c column, library string) string {
	base, _ := r.of(c.scenario, t.libraries[0], c.figure)
	value, _ := r.of(c.scenario, library, c.figure)
	ratio := advantage(base, value, c.less)
	if library == t.libraries[0] || math.IsNaN(ratio) { // not seen, or both are 0
		return ""
	}
	return fmt.Sprintf(" [%s]", times(ratio))
}

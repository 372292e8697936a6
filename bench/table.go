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

// write writes a table in Markdown. The short form has only the main columns,
// and no table without any.
func (t table) write(w *strings.Builder, r results, short bool) {
	columns := t.shown(short)
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

func (t table) shown(short bool) (columns []column) {
	for _, c := range t.columns {
		if c.main || !short {
			columns = append(columns, c)
		}
	}
	return columns
}

// cell returns a figure, and how many times better the figure of the first row
// is.
func (t table) cell(r results, c column, library string) string {
	value, ok := r.of(c.scenario, library, c.figure)
	if !ok {
		return "-"
	}
	base, ok := r.of(c.scenario, t.libraries[0], c.figure)
	ratio := advantage(base, value, c.less)
	if !ok || library == t.libraries[0] || math.IsNaN(ratio) { // both are 0
		return c.unit(value)
	}
	return fmt.Sprintf("%s (%s)", c.unit(value), times(ratio))
}

package main

import (
	"fmt"
	"strings"
)

// The table stands between these lines in docs/proof.md.
const (
	tableBegins = "<!-- mutants: made by go run -C proof ./mutants -doc -->\n"
	tableEnds   = "<!-- end of mutants -->\n"
)

// table is the documentation of the mutants.
func table(mutants []mutant) string {
	var out strings.Builder
	out.WriteString(tableBegins + "\n| fault | test that catches it |\n|---|---|\n")
	for _, m := range mutants {
		fmt.Fprintf(&out, "| %s | `%s` |\n", m.name, m.function())
	}
	out.WriteString("\n" + tableEnds)
	return out.String()
}

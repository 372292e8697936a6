package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/display"
)

// output is the value of --output.
type output string

const (
	asTable output = "table"
	asJSON  output = "json"
)

func (o *output) addFlag(flags *pflag.FlagSet) {
	*o = asTable
	flags.VarP(o, "output", "o", "table, or json: one object a line")
}

// Set parses the name of a format.
func (o *output) Set(text string) error {
	if *o = output(text); *o != asTable && *o != asJSON {
		return fmt.Errorf("%q is not table or json", text)
	}
	return nil
}

// String returns the name.
func (o *output) String() string { return string(*o) }

// Type is what the help names the value.
func (o *output) Type() string { return "format" }

// list writes locks.
func (o *output) list(to io.Writer, locks []relock.Info, now time.Time) error {
	if *o == asJSON {
		return writeJSON(to, locks, display.ToLockRow)
	}
	t := newTable(to, "KEY", "KIND", "STATE", "HOLDER", "AGE", "LEFT", "WAITING", "OLDEST-WAIT")
	for _, i := range locks {
		t.row(i.Key, kindOf(i), stateOf(i), holdersOf(i), ageOf(i, now), leftOf(i), strconv.Itoa(i.Waiting), waitOf(i))
	}
	return t.flush()
}

// writeJSON writes one object a line.
func writeJSON[T, R any](to io.Writer, all []T, row func(T) R) error {
	lines := json.NewEncoder(to)
	for _, one := range all {
		if err := lines.Encode(row(one)); err != nil {
			return err
		}
	}
	return nil
}

// table writes columns.
type table struct{ lines *tabwriter.Writer }

func newTable(to io.Writer, heads ...string) table {
	t := table{tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)}
	if len(heads) > 0 {
		t.row(heads...)
	}
	return t
}

// row writes a line. A cell without text is a dash, so that each line has as
// many words as columns.
func (t table) row(cells ...string) {
	for i, cell := range cells {
		if cells[i] = quoted(cell); cell == "" {
			cells[i] = "-"
		}
	}
	t.print(cells)
}

// line writes a line of texts, which may have spaces.
func (t table) line(cells ...string) {
	for i, cell := range cells {
		cells[i] = display.Plain(cell)
	}
	t.print(cells)
}

func (t table) print(cells []string) {
	_, _ = fmt.Fprintln(t.lines, strings.TrimRight(strings.Join(cells, "\t"), "\t")) // flush returns the error
}

func (t table) flush() error { return t.lines.Flush() }

// quoted returns a text that drives no terminal, and is one word.
func quoted(text string) string {
	if strings.ContainsAny(text, ` "`) {
		return strconv.Quote(text)
	}
	return display.Plain(text)
}

// brief returns a duration as people say it.
func brief(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

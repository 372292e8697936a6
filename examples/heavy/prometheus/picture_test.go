package main

import (
	"encoding/xml"
	"flag"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var writesPicture = flag.Bool("picture", false, "run for a minute, and write docs/dashboard.svg")

const (
	pictureFile   = "../../../docs/dashboard.svg"
	pictureSize   = 40_000
	rateIntervals = 4 // of scrapes, as Grafana chooses $__rate_interval
)

// shownPanels is the panels of the dashboard that the picture shows.
var shownPanels = []string{"Calls by outcome", "Time to acquire", "Held and waiting", "Tasks"}

// unitLabels is how the picture writes a unit of Grafana.
var unitLabels = map[string]string{"ops": "ops/s", "s": "s", "short": "count"}

// shown returns the panels of the dashboard that the picture shows.
func shown(t *testing.T) (all []panel) {
	t.Helper()
	for _, title := range shownPanels {
		for _, p := range readDashboard(t).Panels {
			if p.Title == title {
				all = append(all, p)
			}
		}
	}
	require.Len(t, all, len(shownPanels))
	return all
}

// linesOf evaluates the expressions of a panel at each scrape.
func linesOf(t *testing.T, p panel, history []scrape) (lines []line) {
	t.Helper()
	for _, target := range p.Targets {
		q, err := parseQuery(target.Expr)
		require.NoError(t, err)
		found := map[string]*line{}
		for i := range history {
			for _, one := range q.evaluate(history[max(0, i-rateIntervals) : i+1]) {
				name := legend(target.LegendFormat, one.labels)
				if found[name] == nil {
					found[name] = newLine(name, len(history))
				}
				found[name].values[i] = one.value
			}
		}
		lines = append(lines, inOrder(found)...)
	}
	return lines
}

// legend puts labels into a format of Grafana.
func legend(format string, labels map[string]string) string {
	return placeholder.ReplaceAllStringFunc(format, func(name string) string {
		return labels[strings.Trim(name, "{}")]
	})
}

func newLine(name string, n int) *line {
	return &line{name, slices.Repeat([]float64{math.NaN()}, n)}
}

func inOrder(found map[string]*line) (all []line) {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[name])
	}
	return all
}

// pictureOf returns the picture of a run.
func pictureOf(t *testing.T, r incident, history []scrape) (p picture) {
	t.Helper()
	for _, one := range history {
		p.seconds = append(p.seconds, one.at.Seconds())
	}
	p.marks = []mark{
		{p.seconds[r.hangs], "a holder hangs"},
		{p.seconds[r.killed], "its process is killed"},
		{p.seconds[r.replaced], "a new process starts"},
	}
	for _, one := range shown(t) {
		unit := unitLabels[one.FieldConfig.Defaults.Unit]
		p.charts = append(p.charts, chart{one.Title, unit, linesOf(t, one, history)})
	}
	return p
}

// The panels of a real run have what the dashboard asks for: calls that succeed
// and calls that do not, waits, holds and tasks. With -picture the run is the
// one of docs/telemetry.md.
func TestPicture(t *testing.T) {
	t.Parallel()
	r := incident{tick: 250 * time.Millisecond, hangs: 4, killed: 8, replaced: 11, ends: 16}
	if *writesPicture {
		r = incident{tick: time.Second, hangs: 15, killed: 27, replaced: 38, ends: 61}
	}
	history := r.record(t)
	p := pictureOf(t, r, history)
	names := map[string]bool{}
	for _, c := range p.charts {
		for _, l := range c.lines {
			names[c.title+": "+l.name] = true
		}
		require.Positive(t, c.most(), c.title)
	}
	for _, name := range []string{
		"Calls by outcome: ok", "Calls by outcome: busy", "Time to acquire: p50", "Time to acquire: p99",
		"Held and waiting: held", "Held and waiting: waiting",
		"Tasks: mails ready", "Tasks: mails in flight", "Tasks: mails behind",
	} {
		require.True(t, names[name], "%s is not in %v", name, names)
	}
	if *writesPicture {
		require.NoError(t, os.WriteFile(pictureFile, []byte(p.draw()), 0o644))
	}
}

// drawn is what a test reads of a picture: the texts of each panel.
type drawn struct {
	Panels []struct {
		Texts []struct {
			Class string `xml:"class,attr"`
			Text  string `xml:",chardata"`
		} `xml:"text"`
	} `xml:"g"`
}

// texts returns the title of a panel, and its other texts.
func (d drawn) texts(i int) (title string, others []string) {
	for _, one := range d.Panels[i].Texts {
		if one.Class == "t" {
			title += one.Text
		} else {
			others = append(others, one.Text)
		}
	}
	return title, others
}

// The picture of the documentation has the titles, units and legends of the
// dashboard, and no other panels. Its expressions can be evaluated.
func TestPictureShowsTheDashboard(t *testing.T) {
	t.Parallel()
	svg, err := os.ReadFile(pictureFile)
	require.NoError(t, err)
	require.Less(t, len(svg), pictureSize)
	require.Contains(t, string(svg), "prefers-color-scheme:dark")
	var all drawn
	require.NoError(t, xml.Unmarshal(svg, &all))
	require.Len(t, all.Panels, len(shownPanels))
	for i, p := range shown(t) {
		title, others := all.texts(i)
		require.Equal(t, p.Title, title)
		require.Contains(t, others, unitLabels[p.FieldConfig.Defaults.Unit], title)
		for _, target := range p.Targets {
			_, err := parseQuery(target.Expr)
			require.NoError(t, err)
			labels := map[string]string{"messaging_destination_name": "mails", "relock_outcome": "busy"}
			require.Contains(t, others, legend(target.LegendFormat, labels), title)
		}
	}
	docs, err := os.ReadFile("../../../docs/telemetry.md")
	require.NoError(t, err)
	require.Contains(t, string(docs), "](dashboard.svg)")
	require.Contains(t, string(docs), "\nmake picture\n")
}

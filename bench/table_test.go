package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func someResults() results {
	return results{Runs: 3, Machine: machine{CPU: "a CPU", Cores: 2}, Figures: map[string]map[string][]figures{
		"load": {
			ours: {{"speed": 12345, "wait": 0.002, "lost": 0}},
			rawRedigo: {{"speed": 4000, "wait": 0.001, "lost": 0}, {"speed": 3000, "wait": 0.001, "lost": 0}, {
				"speed": 5000, "wait": 0.001, "lost": 0,
			}},
			// No run has seen any of it.
			rueidisDefault: {{}},
		},
	}}
}

func someTable() table {
	return table{
		title: "A load", text: "of some kind.", libraries: []string{ours, rawRedigo, rueidisDefault},
		columns: []column{
			{heading: "per second", scenario: "load", figure: "speed", unit: count, main: true, plotted: "speed <of all>"},
			{heading: "wait", scenario: "load", figure: "wait", unit: duration, less: true},
			{heading: "lost", scenario: "load", figure: "lost", unit: count, less: true},
		},
	}
}

func TestTable(t *testing.T) {
	var w strings.Builder
	someTable().write(&w, someResults(), false)
	want := `**A load** of some kind.

| | per second | wait | lost |
|---|---|---|---|
| relock | 12,345 | 2.00 ms | 0 |
| raw redigo | 4,000 (3,000..5,000) [3.1×] | 1.00 ms (1.00 ms..1.00 ms) [0.50×] | 0 (0..0) |
| rueidislock | - | - | - |

`
	require.Equal(t, want, w.String())
}

func TestShortTableHasTheMainColumns(t *testing.T) {
	var w strings.Builder
	someTable().write(&w, someResults(), true)
	require.NotContains(t, w.String(), "wait")
	require.Contains(t, w.String(), "per second")
}

func TestShortFormLeavesOutATableWithoutMainColumns(t *testing.T) {
	var w strings.Builder
	details := someTable()
	details.columns = details.columns[1:]
	details.write(&w, someResults(), true)
	require.Empty(t, w.String())
}

func TestEveryColumnIsOfAFigureThatItsScenarioHas(t *testing.T) {
	counted, err := countFigures(outcome{reports: []report{{Counts: []int64{1}, Time: 1}}})
	require.NoError(t, err)
	granted, err := grantFigures(outcome{load: load{Processes: 2, Goroutines: 1}, reports: twoProcesses(), trip: 1})
	require.NoError(t, err)
	known := map[string]figures{
		"count": counted, "trace": granted, "nest": {outerPair: 1, nestedPair: 1, nestedShare: 1, byPlain: 1},
	}
	for _, table := range tables {
		for _, c := range table.columns {
			i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == c.scenario })
			require.GreaterOrEqual(t, i, 0, "%s: no scenario %q", c.heading, c.scenario)
			if scenarios[i].outside == nil {
				require.Contains(t, known[scenarios[i].load.Work], c.figure, "%s: %s", c.heading, c.scenario)
			}
			if !strings.HasPrefix(c.figure, handOffTime) {
				require.Contains(t, scenarios[i].needed(), c.figure, "%s: %s", c.heading, c.scenario)
			}
			require.Subset(t, scenarios[i].libraries, table.libraries, "%s: %s", c.heading, c.scenario)
		}
	}
}

func TestUnits(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{count(7), "7"},
		{count(999.6), "1,000"},
		{count(1234567), "1,234,567"},
		{duration(468e-6), "468 µs"},
		{duration(0.0021), "2.10 ms"},
		{duration(0.0261), "26.1 ms"},
		{duration(1.91), "1910 ms"},
		{times(0.954), "0.95×"},
		{times(2.51), "2.5×"},
		{times(23.4), "23×"},
		{times(1e6), ">999×"},
		{times(advantage(1, 0, false)), ">999×"},
		{share(0.756), "0.76"},
		{one(19.04), "19.0"},
	} {
		require.Equal(t, tt.want, tt.got)
	}
}

func TestPlotIsWellFormed(t *testing.T) {
	tbl := someTable()
	tbl.columns[1].plotted = "wait"
	svg, err := drawn([]table{tbl}, someResults())
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal([]byte(svg), new(any)), svg)
	for _, want := range []string{
		"speed &lt;of all&gt;: more is better", ">12,345<", ">4,000 [3.1×]<", "wait: less is better", ">1.00 ms [0.50×]<",
	} {
		require.Contains(t, svg, want)
	}
	require.NotContains(t, svg, rueidisDefault, "a library without the figure has a bar")
}

// Bars start at 0 and are proportional to their figures. A line goes from the
// least of the runs to the most.
func TestBars(t *testing.T) {
	svg, err := drawn([]table{someTable()}, someResults())
	require.NoError(t, err)
	x := func(pattern string, n int) (from, to float64) {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(svg, -1)
		require.Len(t, found, 2)
		_, err := fmt.Sscan(found[n][1]+" "+found[n][2], &from, &to)
		require.NoError(t, err)
		return from, to
	}
	const bar = `d="M([0-9.]+),[0-9.L]+,[0-9.]+L([0-9.]+),.*fill:#(?:AFB8C1|0969DA)"`
	raw, to := x(bar, 0)
	zero, longest := x(bar, 1)
	require.Equal(t, zero, raw)
	require.InDelta(t, 4000./12345, (to-zero)/(longest-zero), 0.001)
	least, most := x(`d="M([0-9.]+),[0-9.]+L([0-9.]+),[0-9.]+" style="fill:none`, 0)
	require.InDelta(t, 3000./4000, (least-zero)/(to-zero), 0.001)
	require.InDelta(t, 5000./4000, (most-zero)/(to-zero), 0.001)
}

func TestSaveAndInsert(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, save(filepath.Join(dir, "results"), someResults()))
	for _, name := range []string{"results.md", "results.svg", "results.json"} {
		text, err := os.ReadFile(filepath.Join(dir, "results", name))
		require.NoError(t, err)
		require.NotEmpty(t, text, name)
	}
	path := filepath.Join(dir, "README.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+beginMark+"old\n"+endMark+"after\n"), 0o600))
	for range 2 { // the second time over its own text
		require.NoError(t, insert(path, page(someResults(), true)))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "before\n"+beginMark+page(someResults(), true)+endMark+"after\n", string(got))
}

func TestInsertNeedsBothMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	require.NoError(t, os.WriteFile(path, []byte("text\n"+beginMark), 0o600))
	require.Error(t, insert(path, page(someResults(), true)), "the second mark is missing")
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "text\n"+beginMark, string(got))
}

func TestVersions(t *testing.T) {
	got := versions([]*debug.Module{
		{Path: "github.com/redis/rueidis", Version: "v1.0.79"},
		{Path: "golang.org/x/sys", Version: "v0.47.0"},
		{Path: "github.com/gomodule/redigo", Version: "v1.9.3"},
	})
	require.Equal(t, []string{"github.com/gomodule/redigo v1.9.3", "github.com/redis/rueidis v1.0.79"}, got)
}

func TestFieldOf(t *testing.T) {
	text := "# Server\r\nredis_version:7.0.15\r\nmodel name\t: A CPU @ 2.00GHz: two\n"
	for field, want := range map[string]string{
		"redis_version": "7.0.15", "model name": "A CPU @ 2.00GHz: two", "version": "",
	} {
		require.Equal(t, want, fieldOf(text, field), field)
	}
}

func TestSettingsKnowTheirNames(t *testing.T) {
	for name, tt := range map[string]struct {
		settings settings
		want     int // scenarios; -1 is a mistake
	}{
		"all":              {settings{}, len(scenarios)},
		"one":              {settings{scenarios: regexp.MustCompile("^busy$")}, 1},
		"several":          {settings{scenarios: regexp.MustCompile("distinct|etcd")}, 5},
		"unknown scenario": {settings{scenarios: regexp.MustCompile("nothing")}, -1},
	} {
		got, err := tt.settings.chosen()
		require.Equal(t, tt.want < 0, err != nil, "%s: %v", name, err)
		require.Len(t, got, max(tt.want, 0), name)
	}
}

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
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
	if got := w.String(); got != want {
		t.Errorf("table:\n%s\nwant:\n%s", got, want)
	}
}

func TestShortTableHasTheMainColumns(t *testing.T) {
	var w strings.Builder
	someTable().write(&w, someResults(), true)
	if got := w.String(); strings.Contains(got, "wait") || !strings.Contains(got, "per second") {
		t.Errorf("short table:\n%s", got)
	}
}

func TestShortFormLeavesOutATableWithoutMainColumns(t *testing.T) {
	var w strings.Builder
	details := someTable()
	details.columns = details.columns[1:]
	details.write(&w, someResults(), true)
	if got := w.String(); got != "" {
		t.Errorf("short table:\n%s", got)
	}
}

func TestEveryColumnIsOfAFigureThatItsScenarioHas(t *testing.T) {
	counted, err := countFigures(outcome{reports: []report{{Counts: []int64{1}, Time: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	granted, err := grantFigures(outcome{load: load{Processes: 2, Goroutines: 1}, reports: twoProcesses(), trip: 1})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]figures{
		"count": counted, "trace": granted, "nest": {outerPair: 1, nestedPair: 1, nestedShare: 1, byPlain: 1},
	}
	for _, table := range tables {
		for _, c := range table.columns {
			i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == c.scenario })
			if i < 0 {
				t.Errorf("%s: no scenario %q", c.heading, c.scenario)
				continue
			}
			if _, ok := known[scenarios[i].load.Work][c.figure]; !ok && scenarios[i].outside == nil {
				t.Errorf("%s: %s has no figure %q", c.heading, c.scenario, c.figure)
			}
			if !strings.HasPrefix(c.figure, handOffTime) && !slices.Contains(scenarios[i].needed(), c.figure) {
				t.Errorf("%s: a run of %s without a %q is no failure", c.heading, c.scenario, c.figure)
			}
			for _, library := range table.libraries {
				if !slices.Contains(scenarios[i].libraries, library) {
					t.Errorf("%s: %s is not measured in %s", c.heading, library, c.scenario)
				}
			}
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
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestPlotIsWellFormed(t *testing.T) {
	svg := plot(panels([]table{someTable()}, someResults()))
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	for _, want := range []string{
		"speed &lt;of all&gt;: more is better", ">12,345<", ">4,000 [3.1×]<",
		`d="M178.2 61H209.0"`, `width="190.0"`, `width="61.6"`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the plot has no %s:\n%s", want, svg)
		}
	}
	if strings.Contains(svg, rueidisDefault) {
		t.Error("a library without the figure has a bar")
	}
}

func TestPlotOfLessIsBetterSaysSo(t *testing.T) {
	tbl := someTable()
	tbl.columns[1].plotted = "wait"
	all := panels([]table{tbl}, someResults())
	if len(all) != 2 || all[1].title != "wait: less is better" || all[1].bars[1].length != 0.5 {
		t.Errorf("panels: %+v", all)
	}
}

func TestSaveAndInsert(t *testing.T) {
	dir := t.TempDir()
	if err := save(filepath.Join(dir, "results"), someResults()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"results.md", "results.svg", "results.json"} {
		if info, err := os.Stat(filepath.Join(dir, "results", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := filepath.Join(dir, "README.md")
	if err := os.WriteFile(path, []byte("before\n"+beginMark+"old\n"+endMark+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time over its own text
		if err := insert(path, page(someResults(), true)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + beginMark + page(someResults(), true) + endMark + "after\n"; string(got) != want {
		t.Errorf("file:\n%s\nwant:\n%s", got, want)
	}
}

func TestInsertNeedsBothMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(path, []byte("text\n"+beginMark), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := insert(path, page(someResults(), true)); err == nil {
		t.Error("a file without the second mark was accepted")
	}
	if got, _ := os.ReadFile(path); string(got) != "text\n"+beginMark {
		t.Errorf("the file was changed: %s", got)
	}
}

func TestVersions(t *testing.T) {
	got := versions([]*debug.Module{
		{Path: "github.com/redis/rueidis", Version: "v1.0.79"},
		{Path: "golang.org/x/sys", Version: "v0.47.0"},
		{Path: "github.com/gomodule/redigo", Version: "v1.9.3"},
	})
	if want := []string{
		"github.com/gomodule/redigo v1.9.3", "github.com/redis/rueidis v1.0.79",
	}; !slices.Equal(got, want) {
		t.Errorf("versions = %v, want %v", got, want)
	}
}

func TestFieldOf(t *testing.T) {
	text := "# Server\r\nredis_version:7.0.15\r\nmodel name\t: A CPU @ 2.00GHz: two\n"
	for field, want := range map[string]string{
		"redis_version": "7.0.15", "model name": "A CPU @ 2.00GHz: two", "version": "",
	} {
		if got := fieldOf(text, field); got != want {
			t.Errorf("%s = %q, want %q", field, got, want)
		}
	}
}

func TestSettingsKnowTheirNames(t *testing.T) {
	for name, tt := range map[string]struct {
		settings settings
		want     int // scenarios; -1 is a mistake
	}{
		"all":              {settings{libs: []string{ours}}, len(scenarios)},
		"one":              {settings{libs: []string{ours}, scenarios: regexp.MustCompile("^busy$")}, 1},
		"several":          {settings{libs: []string{ours}, scenarios: regexp.MustCompile("distinct|etcd")}, 5},
		"unknown scenario": {settings{libs: []string{ours}, scenarios: regexp.MustCompile("nothing")}, -1},
		"unknown library":  {settings{libs: []string{"nothing"}}, -1},
	} {
		got, err := tt.settings.chosen()
		if (err != nil) != (tt.want < 0) || err == nil && len(got) != tt.want {
			t.Errorf("%s: %d scenarios, %v", name, len(got), err)
		}
	}
}

// Names of libraries are joined by commas on the command line.
func TestNamesOfLibraries(t *testing.T) {
	for _, name := range knownLibraries() {
		if strings.Contains(name, ",") {
			t.Errorf("the name %q has a comma", name)
		}
	}
}

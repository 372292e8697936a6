package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/relock-go/relock/internal/test/redistest"
)

// dashboard is what the test reads of a dashboard of Grafana.
type dashboard struct {
	UID        string `json:"uid"`
	Templating struct {
		List []struct{ Name, Type string } `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type panel struct {
	Title, Type, Description string
	Datasource               struct{ UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct{ Expr, LegendFormat string }
}

// rules is what the test reads of a file of rules of Prometheus.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("../../../otel/grafana/relock.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// scraped returns the labels of each metric of a service that was used.
func scraped(t *testing.T) map[string]map[string]bool {
	t.Helper()
	s, err := newService("unix://" + redistest.Start(t).Address)
	require.NoError(t, err)
	defer s.close()
	require.NoError(t, s.use(t.Context()))
	all, err := s.scrape()
	require.NoError(t, err)
	found := map[string]map[string]bool{}
	for _, one := range all {
		if found[one.name] == nil {
			found[one.name] = map[string]bool{"job": true, "instance": true} // which Prometheus adds
		}
		for key := range one.labels {
			found[one.name][key] = true
		}
	}
	return found
}

var (
	quoted    = regexp.MustCompile(`"[^"]*"`)
	variable  = regexp.MustCompile(`\$\w+`)
	ranges    = regexp.MustCompile(`\[[^\]]*\]`)
	matchers  = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	grouping  = regexp.MustCompile(`\bby \(([^)]*)\)`)
	word      = regexp.MustCompile(`\b[a-zA-Z_:][\w:]*\b`)
	functions = []string{"sum", "max", "rate", "increase", "delta", "histogram_quantile"}
)

// metricsOf returns the metrics of an expression. Each must be found, with each
// of its labels.
func metricsOf(expr string, found map[string]map[string]bool) (names []string, err error) {
	bare := ranges.ReplaceAllString(variable.ReplaceAllString(quoted.ReplaceAllString(expr, ""), ""), "")
	var by []string
	for _, match := range grouping.FindAllStringSubmatch(bare, -1) {
		by = append(by, word.FindAllString(match[1], -1)...)
	}
	for _, match := range matchers.FindAllStringSubmatch(bare, -1) {
		err = errors.Join(err, lacks(found, match[1], word.FindAllString(match[2], -1)))
	}
	bare = grouping.ReplaceAllString(matchers.ReplaceAllString(bare, "$1"), "")
	for _, name := range word.FindAllString(bare, -1) {
		if !slices.Contains(functions, name) {
			err = errors.Join(err, lacks(found, name, by))
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		err = errors.New("names no metric")
	}
	return names, err
}

// lacks returns an error if a metric, or a label of it, is not found.
func lacks(found map[string]map[string]bool, name string, labels []string) (err error) {
	if found[name] == nil {
		return fmt.Errorf("%s was not scraped", name)
	}
	for _, key := range labels {
		if !found[name][key] {
			err = errors.Join(err, fmt.Errorf("%s has no label %s", name, key))
		}
	}
	return err
}

// The dashboard asks for what a service has, from the data source that is
// chosen. Each panel has a unit. Together they show each metric.
func TestDashboard(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	require.NotEmpty(t, d.UID)
	names := []string{}
	for _, v := range d.Templating.List {
		names = append(names, v.Name+" "+v.Type)
	}
	require.Equal(t, []string{"datasource datasource", "job query", "name query"}, names)
	found, shown, rows := scraped(t), map[string]bool{}, 0
	for _, p := range d.Panels {
		require.NotEmpty(t, p.Title)
		if p.Type == "row" {
			rows++
			continue
		}
		require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		require.NotEmpty(t, p.FieldConfig.Defaults.Unit, p.Title)
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.NotEmpty(t, target.LegendFormat, p.Title)
			require.Contains(t, target.Expr, `job=~"$job"`, p.Title)
			metrics, err := metricsOf(target.Expr, found)
			require.NoError(t, err, target.Expr)
			for _, name := range metrics {
				shown[name] = true
			}
		}
	}
	require.Equal(t, 3, rows)
	require.Len(t, d.Panels, 14+rows)
	for name := range found {
		kind := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		isShown := shown[name] || kind != name && (shown[kind+"_bucket"] || shown[kind+"_count"])
		require.True(t, isShown || name == "target_info", "no panel shows %s", name)
	}
}

// The rules ask for what a service has. docs/telemetry.md has each expression.
func TestRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../otel/grafana/rules.yml")
	require.NoError(t, err)
	var all rules
	require.NoError(t, yaml.Unmarshal(text, &all))
	docs, err := os.ReadFile("../../../docs/telemetry.md")
	require.NoError(t, err)
	found := scraped(t)
	require.Len(t, all.Groups, 1)
	require.Len(t, all.Groups[0].Rules, 9)
	for _, rule := range all.Groups[0].Rules {
		_, err := metricsOf(rule.Expr, found)
		require.NoError(t, err, rule.Alert)
		require.Contains(t, string(docs), "`"+rule.Expr+"`", "telemetry.md does not have the rule %s", rule.Alert)
		require.NotEmpty(t, rule.Labels["severity"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
	}
}

// An expression that asks for something else is found out.
func TestMetricsOf(t *testing.T) {
	t.Parallel()
	found := map[string]map[string]bool{"a_total": {"kind": true, "le": true}, "b": {"le": true}}
	names, err := metricsOf(`histogram_quantile(0.99, sum by (le) (rate(b[5m]))) / max(a_total{kind=~"$kind"})`, found)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "a_total"}, names)
	for _, wrong := range []string{`c > 0`, `a_total{other="x"}`, `sum by (other) (b)`, `1 > 0`, `unknown(b)`} {
		_, err = metricsOf(wrong, found)
		require.Error(t, err, wrong)
	}
}

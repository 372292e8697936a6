package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAims(t *testing.T) {
	r := results{Figures: map[string]map[string][]figures{
		distinct1.name: {
			ours:          {{perSecond: 900}, {perSecond: 1000}},
			rawRedigo:     {{perSecond: 1000}, {perSecond: 2000}},
			redsyncRedigo: {{perSecond: 300}, {perSecond: 500}},
			bsmRedislock:  {{perSecond: 450}, {}},
		},
		busy.name:   {oursFair: {{waitP99: 2}}, redsyncRedigo: {{waitP99: 40}}, rueidisOneKey: {{waitP99: 8}}},
		nested.name: {oursReentrant: {{byPlain: 0.7}}},
	}}
	var w strings.Builder
	writeAims(&w, r)
	for _, want := range []string{
		"| raw redigo | at least 1.00 | 0.70 (0.50..0.90) |\n",
		"| the best of all others | at least 0.95 | 2.00 (2.00..2.00) |\n",
		"wait p99 | the best of all others | at most 0.15 | 0.25 |\n",
		"by a plain pair's |  | at least 0.85 | 0.70 |\n",
	} {
		require.Contains(t, w.String(), want)
	}
	require.Equal(t, 5, strings.Count(w.String(), "\n| "), "of the head, and of what was measured:\n%s", w.String())
}

func TestEveryAimIsOfAFigureThatItsScenarioHas(t *testing.T) {
	for _, a := range aims {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == a.scenario })
		require.GreaterOrEqual(t, i, 0, a.scenario)
		require.Contains(t, append(scenarios[i].needed(), handOffTime), a.figure, "%s: %s", a.what, a.scenario)
		require.Subset(t, scenarios[i].libraries, append(slices.Clone(a.others), a.library), "%s: %s", a.what, a.scenario)
	}
}

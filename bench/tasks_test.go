package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTaskPage(t *testing.T) {
	r := results{
		Runs: 2,
		Figures: map[string]map[string][]figures{enqueue1.name: {
			oursQueue: {{tasksPerSecond: 3000}, {tasksPerSecond: 1000}},
			asynqName: {{tasksPerSecond: 4000}},
		}, taskMemory.name: {oursQueue: {{bytesPerTask: 100}}, asynqName: {{bytesPerTask: 300}}}},
	}
	page := taskPage(r)
	for _, want := range []string{
		"| enqueue/s, 1 producer | 2,000 (1,000..3,000) | 4,000 | 0.50× | 1.0× |\n",
		"| bytes for a task of 100 bytes | 100 | 300 | 3.0× |",
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "64 producers", "nothing has measured it")
}

func TestEveryTaskRowIsOfAFigureThatItsScenarioHas(t *testing.T) {
	for _, row := range taskRows {
		i := slices.IndexFunc(taskScenarios, func(s scenario) bool { return s.name == row.scenario })
		require.GreaterOrEqual(t, i, 0, row.scenario)
		require.Contains(t, taskScenarios[i].needed(), row.figure, "%s: %s", row.what, row.scenario)
	}
}

func TestShortKilledHasNoAsynq(t *testing.T) {
	require.Equal(t, []string{oursQueue}, killed.short().libraries, "a brief run waits for the leases of others")
}

func TestNumberOfPayload(t *testing.T) {
	for _, n := range []int64{-1, 0, 1 << 40} {
		require.Equal(t, n, numberOf(payloadOf(n)))
	}
}

func TestStarts(t *testing.T) {
	s, before := newStarts(), time.Now()
	s.note(payloadOf(2))
	s.note(payloadOf(7))
	at, err := s.wait(t.Context(), 7)
	require.NoError(t, err)
	require.False(t, at.Before(before))
}

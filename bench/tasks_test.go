package main

import (
	"slices"
	"strings"
	"testing"
	"time"
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
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "64 producers") {
		t.Errorf("a row that nothing has measured is in\n%s", page)
	}
}

func TestEveryTaskRowIsOfAFigureThatItsScenarioHas(t *testing.T) {
	for _, row := range taskRows {
		i := slices.IndexFunc(taskScenarios, func(s scenario) bool { return s.name == row.scenario })
		if i < 0 || !slices.Contains(taskScenarios[i].needed(), row.figure) {
			t.Errorf("%s: %s has no figure %q", row.what, row.scenario, row.figure)
		}
	}
}

func TestShortKilledHasNoAsynq(t *testing.T) {
	if got := killed.short().libraries; !slices.Equal(got, []string{oursQueue}) {
		t.Errorf("a brief run waits for the leases of %q", got)
	}
}

func TestNumberOfPayload(t *testing.T) {
	for _, n := range []int64{-1, 0, 1 << 40} {
		if got := numberOf(payloadOf(n)); got != n {
			t.Errorf("numberOf(payloadOf(%d)) = %d", n, got)
		}
	}
}

func TestStarts(t *testing.T) {
	s, before := newStarts(), time.Now()
	s.note(payloadOf(2))
	s.note(payloadOf(7))
	at, err := s.wait(t.Context(), 7)
	if err != nil || at.Before(before) {
		t.Errorf("wait = %v, %v", at, err)
	}
}

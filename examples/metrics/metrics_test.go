package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/examples/internal/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Two calls, one of them refused, and the lock that is held.
func TestMetrics(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, runs.Prints(`lock_calls_total{kind="plain",outcome="busy"} 1
lock_calls_total{kind="plain",outcome="ok"} 1
locks_held 1
locks_waiting 0
locks_lost_total 0
`))
}

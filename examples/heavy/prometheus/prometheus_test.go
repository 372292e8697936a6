package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/examples/internal/runs"
	"github.com/relock-go/relock/internal/test/faults"
)

func TestMain(m *testing.M) {
	faults.RunChild(map[string]faults.Role{"load": load, "serve": serve})
	goleak.VerifyTestMain(m)
}

// The lock that is held is in the scrape.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, runs.Prints("relock_held 1\n"))
}

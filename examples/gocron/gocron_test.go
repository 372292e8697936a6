package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/examples/internal/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The job runs once per period.
func TestGocron(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, runs.Scheduled)
}

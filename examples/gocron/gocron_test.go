package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/examples/internal/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The job runs once per period. The clock of the embedded server lags on a busy
// machine, so that it may skip a run.
func TestGocron(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, func(t *testing.T, out string) {
		all := "report 1\nreport 2\nreport 3\n"
		require.Equal(t, all[:len(out)], out)
		require.True(t, out == all || strings.HasSuffix(t.Name(), "/embedded") && out != "", out)
	})
}

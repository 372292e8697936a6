package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/examples/internal/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// At the end of ctx, the holder stops its work and the waiter its wait.
func TestShutdown(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, func(t *testing.T, out string) {
		require.ElementsMatch(t, []string{"stopped waiting", "stopped working"}, strings.Split(strings.TrimSpace(out), "\n"))
	})
}

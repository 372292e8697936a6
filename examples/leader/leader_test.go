package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/examples/internal/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The second candidate leads once the first one is deposed, who learns why.
func TestLeader(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, func(t *testing.T, out string) {
		require.Regexp(t, `(?s)^ann leads\n.*bob leads\n`, out)
		require.Contains(t, out, "ann stops: relock: unlock \"leader\": lock lost (forced: \"moves to another zone\")\n")
		require.Contains(t, out, "bob stops: <nil>\n")
	})
}

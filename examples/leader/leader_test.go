package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/examples/internal/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The second candidate leads once the first one is deposed, who learns why and
// campaigns again.
func TestLeader(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, func(t *testing.T, out string) {
		require.Contains(t, out, "ann leads\ndeposed: <nil> ")
		for _, news := range []string{
			`ann stops: lock lost (forced: "moves to another zone")`, "bob leads", "ann ends: <nil>", "bob ends: <nil>",
		} {
			require.Contains(t, out, news+"\n")
		}
	})
}

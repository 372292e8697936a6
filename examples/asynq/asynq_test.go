package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tasks of a customer run one after the other, and those of the other one
// meanwhile.
func TestAsynq(t *testing.T) {
	server := redistest.Start(t)
	var out bytes.Buffer
	require.NoError(t, run(&out, server.Network, server.Address))
	t.Log(out.String())

	inside, together := map[string]bool{}, false
	for line := range strings.Lines(out.String()) {
		name, what, _ := strings.Cut(strings.TrimSpace(line), ": ")
		begins := what == "a task begins"
		require.NotEqual(t, begins, inside[name], "two tasks of %s", name)
		inside[name] = begins
		together = together || inside["alice"] && inside["bob"]
	}
	require.Equal(t, 8, strings.Count(out.String(), "a task ends"))
	require.True(t, together, "customers have waited for each other")
}

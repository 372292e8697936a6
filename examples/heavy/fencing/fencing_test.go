package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/examples/internal/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The database refuses the write of the holder that has lost the lock.
func TestFencing(t *testing.T) {
	t.Parallel()
	require.EqualError(t, setBalance(t.Context(), nil, 1), "not under a lock")
	runs.OnBoth(t, run,
		runs.Prints("next holder: <nil>\npaused holder: too late, no token, or no such row\nlost: true\n"))
}

package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/examples/internal/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// 54 calls take three rounds of 20, a second apart.
func TestLLM(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, runs.Prints("54 calls, at most 20 together: true, in 2 seconds or more: true\n"))
}

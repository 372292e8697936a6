package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/examples/internal/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// One request pays, the other one is refused while it does. Once charge has
// run, nobody is asked to pay again.
func TestHTTP(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, runs.Prints("paid: 200 meanwhile: 409 failed: 500 lost: 500 without Redis: 503\n"))
}

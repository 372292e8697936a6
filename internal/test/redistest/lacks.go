package redistest

import (
	"os"
	"testing"
)

// Lacks ends a test that needs something that the machine lacks. The test is
// skipped, except under CI, where it fails. A green run must mean that the
// tests ran.
func Lacks(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("CI") != "" {
		tb.Fatal(what)
	}
	tb.Skip(what)
}

package locktest

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/test/testkit"
)

// EventuallyWithin waits until ok returns true, and fails the test if that took
// longer than promised, and what the machine may add.
func EventuallyWithin(t testing.TB, promise time.Duration, ok func() bool, what string) {
	t.Helper()
	if ok() {
		return // whatever is promised, 0 too
	}
	watch := testkit.NewStopwatch(t)
	testkit.Eventually(t, max(promise, testkit.Patience), ok, what)
	watch.Within(promise, what)
	watch.Net() // stops it
}

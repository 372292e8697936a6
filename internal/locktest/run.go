package locktest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/redistest"
)

// Run runs the tests of a package, more together than there are processors.
// Then it stops the servers that were kept for later tests, runs the given
// functions, and checks that no goroutine is left. It returns the exit code.
func Run(m *testing.M, after ...func()) (code int) {
	redistest.Overlap()
	code = m.Run()
	RedServers.Close()
	for _, f := range after {
		f()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		return 1
	}
	return code
}

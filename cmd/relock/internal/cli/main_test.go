package cli

import (
	"flag"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/redistest"
)

// long makes the storm run at full length: make test-long.
var long = flag.Bool("long", false, "run the tests at full length")

// asRelock makes the test binary the command relock.
const asRelock = "RELOCK_TEST_AS_RELOCK"

func TestMain(m *testing.M) {
	_, guards := os.LookupEnv(guardVariable)
	switch {
	case !guards && len(os.Args) > 1 && os.Args[1] == workWord:
		os.Exit(work(os.Args[2:]))
	case guards || os.Getenv(asRelock) != "":
		os.Exit(Main(os.Args[1:]))
	}
	unignore()
	redistest.Overlap()
	goleak.VerifyTestMain(m)
}

// unignore gives the processes of tests the usual signals. A shell ignores some
// for what it runs in the background.
func unignore() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

package relock_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// TestMain runs a server for the examples, which cannot start one themselves, and looks for leaked goroutines at the end.
func TestMain(m *testing.M) {
	stop, err := serveExamples()
	if err != nil {
		if os.Getenv("CI") != "" {
			fmt.Fprintln(os.Stderr, "no server for the examples:", err)
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, "examples are skipped:", err)
		_ = flag.Set("test.skip", "^Example")
	}
	os.Exit(locktest.Run(m, stop))
}

// serveExamples tells the examples where their server is.
func serveExamples() (stop func(), err error) {
	network, address := "tcp", os.Getenv("RELOCK_TEST_REDIS")
	stop = func() {}
	if address == "" {
		s, stopServer, err := redistest.Launch()
		if err != nil {
			return stop, err
		}
		network, address, stop = s.Network, s.Address, stopServer
	}
	_ = os.Setenv("EXAMPLE_NETWORK", network)
	_ = os.Setenv("EXAMPLE_ADDRESS", address)
	return stop, nil
}

package relock_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// nodes are three servers that do not know each other. They run from the start,
// since a RedLock counts a server only after a while.
var nodes []*redistest.Server

// TestMain runs the servers of the examples, which cannot start them, and looks
// for leaked goroutines at the end.
func TestMain(m *testing.M) {
	servers, stop, err := launch(4)
	if err == nil {
		err = launchSentinel(&stop)
	}
	foreign, skip := os.Getenv("RELOCK_TEST_REDIS"), ""
	switch {
	case err == nil:
		nodes = servers[1:]
		serveExamples(servers[0].Network, servers[0].Address)
	case os.Getenv("CI") != "":
		fmt.Fprintln(os.Stderr, "no server for the examples:", err)
		os.Exit(1)
	case foreign != "":
		skip = "^Example.*(RedLock|MaxLease|Sentinel)"
	default:
		skip = "^Example"
	}
	if foreign != "" {
		serveExamples("tcp", foreign)
	}
	if skip != "" {
		fmt.Fprintln(os.Stderr, "examples are skipped:", err)
		_ = flag.Set("test.skip", skip)
	}
	os.Exit(locktest.Run(m, stop))
}

// launch runs n servers until stop is called.
func launch(n int) (servers []*redistest.Server, stop func(), err error) {
	var stops []func()
	for len(servers) < n && err == nil {
		var s *redistest.Server
		var stopServer func()
		if s, stopServer, err = redistest.Launch(); stopServer != nil {
			stops = append(stops, stopServer)
		}
		servers = append(servers, s)
	}
	return servers, func() {
		for _, stop := range stops {
			stop()
		}
	}, err
}

// carried returns the hold of this key in ctx.
func carried(t testing.TB, ctx context.Context, key string) relock.Hold {
	t.Helper()
	h, ok := relock.HoldFromContext(ctx, key)
	require.True(t, ok)
	return h
}

// current returns the newest hold in ctx.
func current(t testing.TB, ctx context.Context) relock.Hold {
	t.Helper()
	h, ok := relock.CurrentHold(ctx)
	require.True(t, ok)
	return h
}

// launchSentinel runs a master and a sentinel, until stop is called, too.
func launchSentinel(stop *func()) error {
	address, stopBoth, err := redistest.LaunchSentinel()
	if others := *stop; stopBoth != nil {
		*stop = func() {
			others()
			stopBoth()
		}
	}
	_ = os.Setenv("EXAMPLE_SENTINEL", address)
	return err
}

// serveExamples sets the address that the examples use.
func serveExamples(network, address string) {
	_ = os.Setenv("EXAMPLE_NETWORK", network)
	_ = os.Setenv("EXAMPLE_ADDRESS", address)
}

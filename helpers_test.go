package relock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// nodes are three servers that do not know each other. They run from the start,
// since a RedLock counts a server only after a while.
var nodes []*redistest.Server

// TestMain runs the servers of the examples, which cannot start them, and looks
// for leaked goroutines at the end.
func TestMain(m *testing.M) {
	cluster := launchAside("EXAMPLE_CLUSTER", redistest.LaunchCluster) // which takes 2 s
	servers, stop, err := launch(4)
	stopSentinel, err2 := launchAside("EXAMPLE_SENTINEL", redistest.LaunchSentinel)()
	stopCluster, err3 := cluster()
	err = errors.Join(err, err2, err3)
	foreign, skip := os.Getenv("RELOCK_TEST_REDIS"), ""
	switch {
	case err == nil:
		nodes = servers[1:]
		serveExamples(servers[0].Network, servers[0].Address)
	case os.Getenv("CI") != "":
		fmt.Fprintln(os.Stderr, "no server for the examples:", err)
		os.Exit(1)
	case foreign != "":
		skip = "^Example.*(RedLock|MaxLease|Sentinel|Cluster)"
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
	os.Exit(locktest.Run(m, func() {
		stop()
		stopSentinel()
		stopCluster()
	}))
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

// modes are the options of the two modes.
var modes = map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}}

// carried returns the hold of this key in ctx.
func carried(t testing.TB, ctx context.Context, key string) relock.Hold {
	t.Helper()
	h, ok := relock.HoldFromContext(ctx, key)
	require.True(t, ok)
	return h
}

// promptness is how long after its time something may come.
const promptness = 100 * time.Millisecond

// inTime repeats a call until its grant comes before the end of its lease or
// maximum hold, which is near. On a busy machine one may come too late, and may
// not be released yet when the next call is made.
func inTime(t testing.TB, call func() error) (err error) {
	t.Helper()
	late := false
	testkit.Eventually(t, testkit.Patience, func() bool {
		err = call()
		switch relock.OutcomeOf(err) {
		case relock.OutcomeUnavailable:
			late = true
			return false
		case relock.OutcomeBusy:
			return !late
		}
		return true
	}, "a grant in time")
	return err
}

// takeInTime is locktest.Take for a lock whose lease or maximum hold is short.
func takeInTime(t testing.TB, acquire func(context.Context) (relock.Hold, error)) (h relock.Hold) {
	t.Helper()
	require.NoError(t, inTime(t, func() (err error) {
		h, err = acquire(t.Context())
		return err
	}))
	return h
}

// launchAside runs servers for an example, whose address the variable has. The
// function that it returns waits until they run.
func launchAside(
	variable string, launch func() (address string, stop func(), err error),
) (wait func() (stop func(), err error)) {
	var address string
	var stop func()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		address, stop, err = launch()
	}()
	return func() (func(), error) {
		<-done
		_ = os.Setenv(variable, address)
		if stop == nil {
			stop = func() {}
		}
		return stop, err
	}
}

// serveExamples sets the address that the examples use.
func serveExamples(network, address string) {
	_ = os.Setenv("EXAMPLE_NETWORK", network)
	_ = os.Setenv("EXAMPLE_ADDRESS", address)
}

// shortHold is a maximum hold that a test waits for. A grant on a busy machine
// does not take as long.
const shortHold = 500 * time.Millisecond

// eachKind runs a parallel subtest for each of the kinds, each with a client of
// the shared server.
func eachKind(t *testing.T, test func(t *testing.T, s *redistest.Server, c *relock.Client, newLock locktest.NewLock)) {
	t.Helper()
	s := redistest.Shared(t)
	testkit.Each(t, locktest.Kinds, func(t *testing.T, _ string, newLock locktest.NewLock) {
		test(t, s, locktest.NewTestClient(t, s), newLock)
	})
}

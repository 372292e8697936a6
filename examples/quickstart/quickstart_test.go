package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/examples/internal/runs"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// asProgram makes the test binary the program itself.
const asProgram = "QUICKSTART_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// onBothServers runs a test on the embedded server and on a real one.
func onBothServers(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, "")
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, realURL(redistest.Shared(t)))
	})
}

func realURL(s *redistest.Server) string {
	if s.Network == "unix" {
		return "unix://" + s.Address
	}
	return "redis://" + s.Address
}

var seen = []string{
	"1. Two workers compete for one lock",
	"Seen: 6 turns of two workers, never both at a time.",
	"2. A reentrant lock is taken again by its owner",
	"Seen: locked twice, free only after the second unlock.",
	"3. The watchdog keeps a lock for longer than its lease",
	"Seen: 3 leases went by, and the lock was kept until its unlock.",
	"4. A lost lock is noticed in time",
	"Seen: the context's cause, Err and Unlock all say that the lock was lost.",
	"Done: all of it happened as it should.",
}

func TestQuickstart(t *testing.T) {
	t.Parallel()
	onBothServers(t, func(t *testing.T, url string) {
		var out bytes.Buffer
		err := run(t.Context(), &out, url, relock.WithWatchdog(lease))
		t.Log(out.String())
		require.NoError(t, err)
		runs.InOrder(t, out.String(), seen...)
	})
}

func TestFailsWithoutWatchdog(t *testing.T) {
	t.Parallel()
	onBothServers(t, func(t *testing.T, url string) {
		var out bytes.Buffer
		err := run(t.Context(), &out, url, relock.WithExpiry(lease))
		require.ErrorIs(t, err, relock.ErrLockLost)
		assert.ErrorContains(t, err, "watchdog: after ")
		runs.InOrder(t, out.String(), seen[:5]...)
		assert.NotContains(t, out.String(), seen[5])
	})
}

// testStage is a stage for one part.
func testStage(t *testing.T, url string, keep relock.LockOption) *stage {
	t.Helper()
	if url == "" {
		server, err := embedded.Start()
		require.NoError(t, err)
		t.Cleanup(server.Stop)
		url = server.URL()
	}
	s, err := newStage(&bytes.Buffer{}, url, keep)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.close()) })
	return s
}

func TestFailsWhenTheLossIsNotNoticed(t *testing.T) {
	t.Parallel()
	onBothServers(t, func(t *testing.T, url string) {
		s := testStage(t, url, relock.WithExpiry(4*lease))
		assert.ErrorContains(t, showLoss(t.Context(), s), "not noticed within the lease")
	})
}

func TestExpectations(t *testing.T) {
	t.Parallel()
	onBothServers(t, func(t *testing.T, url string) {
		s := testStage(t, url, relock.WithWatchdog(lease))
		lock := relock.NewRedisLock(s.key("free"), s.second)
		assert.ErrorContains(t, expectTaken(t.Context(), lock), "a second client got the lock")
		assert.NoError(t, expectFree(t.Context(), lock))
	})
}

func TestEmbeddedServerExpiresKeys(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start()
	require.NoError(t, err)
	defer server.Stop()
	client, err := relock.NewClientURL(server.URL())
	require.NoError(t, err)
	defer func() { assert.NoError(t, client.Close()) }()

	const expiry = 200 * time.Millisecond
	start := time.Now()
	took, err := client.SetNEX(t.Context(), "key", "value", expiry)
	require.NoError(t, err)
	require.True(t, took)
	require.Eventually(t, func() bool { return !server.Exists("key") }, 30*time.Second, time.Millisecond)
	assert.GreaterOrEqual(t, time.Since(start), expiry-embedded.MaxStep)
}

func TestServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := run(t.Context(), &out, "redis://127.0.0.1:1", relock.WithWatchdog(lease))
	require.ErrorContains(t, err, "the server cannot be used")
	assert.Empty(t, out.String())
}

func TestEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var clock *testkit.Stopwatch
	time.AfterFunc(100*time.Millisecond, func() {
		clock = testkit.NewStopwatch(t)
		cancel()
	})
	require.ErrorIs(t, run(ctx, &bytes.Buffer{}, "", relock.WithWatchdog(lease)), context.Canceled)
	clock.Within(200 * time.Millisecond)
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	for url, message := range map[string]string{
		"redis://127.0.0.1:1":          "quickstart failed: the server cannot be used",
		"http://user:secret@127.0.0.1": "URL: its scheme is not redis",
	} {
		program := exec.CommandContext(t.Context(), os.Args[0])
		program.Env = append(os.Environ(), asProgram+"=1", "REDIS_URL="+url)
		out, err := program.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, 1, exit.ExitCode())
		assert.Contains(t, string(out), message)
		assert.NotContains(t, string(out), "secret")
	}
}

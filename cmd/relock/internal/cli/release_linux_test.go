package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A forced release ends the hold with its reason. It prints whose it was, and
// the state of the lock now.
func TestRelease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h, err := relock.NewRedisLock("key", b.client(), relock.WithLabel("job"), relock.WithWatchdog(shortLease)).
		Acquire(t.Context())
	require.NoError(t, err)
	out := b.succeeds("release", "--force", "--reason", "it hangs", "key")
	require.Equal(t, "ended: key was held, holder job@HOST:PID, for T; 0 waited\nnow: free, holder -, left -\n",
		figures(out))
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrForced)
	require.ErrorContains(t, err, "it hangs")

	a := b.ask("release", "--force", "--reason", "again", "key")
	require.Equal(t, codeFailed, a.code)
	require.Contains(t, a.err, "not held")
}

// The next waiter gets the lock, and is named.
func TestReleaseNamesTheNext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hold("key")
	open, got := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	defer release()
	ctx := t.Context()
	lock := relock.NewRedisLock("key", b.client(), relock.WithBlock(), relock.WithLabel("next"))
	done := testkit.Async(t, func() error {
		return lock.Do(ctx, func(context.Context) error { close(got); <-open; return nil })
	})
	c := b.client()
	testkit.Eventually(t, testkit.Patience, func() bool {
		info, err := c.Inspect(ctx, "key")
		require.NoError(t, err)
		return info.Waiting == 1
	}, "nobody waits")
	require.Contains(t, b.succeeds("release", "--force", "--reason", "it hangs", "key"), "1 waited\nnow: ")
	<-got
	testkit.Eventually(t, testkit.Patience, func() bool {
		return strings.Contains(b.ask("inspect", "key").out, "next@")
	}, "the next holder is not named")
	release()
	require.NoError(t, testkit.ResultWithin(t, done, testkit.Patience))
}

// With --if-held-by another holder is left alone.
func TestReleaseOfTheNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	me := fmt.Sprintf("%s:%d", host, os.Getpid())
	h := b.hold("key")
	for key, by := range map[string]string{"key": "elsewhere:1", "free": me} {
		a := b.ask("release", "--force", "--reason", "r", "--if-held-by", by, key)
		require.Equal(t, codeBusy, a.code)
		require.Contains(t, a.err, "not held by "+by)
		require.Empty(t, a.out)
	}
	require.NoError(t, h.Err())
	require.NoError(t, h.Extend(t.Context(), time.Minute), "the hold was ended")
	b.succeeds("release", "--force", "--reason", "r", "--if-held-by", me, "key")
	b.requireFree("key")
}

// A hold that nobody acknowledges is shown as forced while the command waits,
// and ends with its lease. Without an acknowledgement it ends immediately.
func TestReleaseOfADeadHolder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for key, lease := range map[string]time.Duration{"waits": 2 * time.Second, "frees": time.Hour} {
		b.server.Do(t, "SET", "relock:{"+key+"}", "relock/1|p|hold|dead|host|1||2", "PX", lease.Milliseconds())
	}
	c := b.client()
	ended := testkit.Async(t, func() error {
		b.succeeds("release", "--force", "--reason", "it is dead", "waits")
		return nil
	})
	testkit.Eventually(t, testkit.Patience, func() bool {
		i, err := c.Inspect(t.Context(), "waits")
		return err == nil && i.Holder != nil && i.Holder.Forced
	}, "it is not marked")
	require.Contains(t, b.succeeds("ls", "waits"), " forced ")
	b.succeeds("release", "--force", "--without-ack", "--reason", "it is dead", "frees")
	b.requireFree("frees")
	require.NoError(t, testkit.ResultWithin(t, ended, testkit.Patience))
	b.requireFree("waits")
}

// Without an answer the release is not confirmed.
func TestReleaseWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hold("key")
	open := make(chan struct{})
	defer close(open)
	evals := func(args []string) bool { return len(args) > 1 && (args[0] == "EVALSHA" || args[0] == "EVAL") }
	seen := b.proxy.Count(evals)
	b.succeeds("inspect", "key") // its script is known, so it is one request
	first := b.proxy.Count(evals) - seen
	require.Equal(t, 2, first)
	b.proxy.On(evals, 4, faults.DelayUntil(open)) // after the state, a look, and that in full
	a := b.ask("--timeout", "0.5", "release", "--force", "--reason", "r", "key")
	require.Equal(t, codeFailed, a.code)
	require.Contains(t, a.err, "not confirmed")
	require.Empty(t, a.out)
}

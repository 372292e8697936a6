package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
)

// script writes a file for a command, and returns its path.
func script(t testing.TB, mode os.FileMode, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	return path
}

// The exit code is that of the command, or of what has kept it from running.
// Then stderr has one line, unless others hold the lock.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hold("held")
	for _, tt := range []struct {
		name string
		args []string
		code int
		text string // of stderr; empty for none
	}{
		{"success", []string{"k", "true"}, 0, ""},
		{"failure", []string{"k", "--", "sh", "-c", "exit 7"}, 7, ""},
		{"a code of relock", []string{"k", "sh", "-c", "exit 124"}, 124, ""},
		{"a signal", []string{"k", "sh", "-c", "kill -TERM $$"}, 143, ""},
		{"kill", []string{"k", "sh", "-c", "kill -KILL $$"}, 137, ""},
		{"its whole group", []string{"k", "sh", "-c", "kill -KILL 0"}, 137, ""},
		{"held by others", []string{"-n", "held", "true"}, 75, ""},
		{"the code for that", []string{"-n", "-E", "9", "held", "true"}, 9, ""},
		{"no code for that", []string{"--nonblock", "--conflict-exit-code=0", "held", "true"}, 0, ""},
		{"until the wait is over", []string{"-w", "0.2", "held", "true"}, 75, ""},
		{"no wait", []string{"-w", "0", "held", "true"}, 75, ""},
		{"read side", []string{"-s", "rw", "true"}, 0, ""},
		{"write side", []string{"-x", "rw", "true"}, 0, ""},
		{"a permit", []string{"--permits", "2", "sem", "true"}, 0, ""},
		{"no permit", []string{"--permits", "0", "sem", "true"}, 125, "permits: 0"},
		{"too many permits", []string{"--permits", "10001", "sem", "true"}, 125, "permits: 10001"},
		{"permits of a reader", []string{"-s", "--permits", "2", "sem", "true"}, 125, "were all set"},
		{"of another kind", []string{"-x", "-n", "held", "true"}, 125, "held"},
		{"cannot be run", []string{"k", script(t, 0o600, "#!/bin/sh\n")}, 126, "permission denied"},
		{"a folder", []string{"k", t.TempDir()}, 126, "directory"},
		{"is no program", []string{"k", script(t, 0o700, "exit 0\n")}, 126, "exec format error"},
		{"is not found", []string{"held", "no-such-command"}, 127, "not found"},
		{"no such file", []string{"held", "/no/such/command"}, 127, "no such file"},
		{"without its interpreter", []string{"k", script(t, 0o700, "#!/no/such/shell\n")}, 127, "no such file"},
		{"no command", []string{"k"}, 125, "needs a KEY and a COMMAND"},
		{"no command after the dashes", []string{"k", "--"}, 125, "needs a KEY and a COMMAND"},
		{"an unknown flag", []string{"--no-such-flag", "k", "true"}, 125, "no-such-flag"},
		{"a wrong key", []string{"}", "true"}, 125, "key"},
		{"a short lease", []string{"--lease", "0.5", "k", "true"}, 125, "500ms is below 1s"},
		{"a long grace", []string{"--lease", "8s", "--grace", "5", "k", "true"}, 125, "5s is above 4s"},
		{"a long minimum of readers", []string{"-s", "--min-hold", "5", "rw", "true"}, 125, "WithMinHold"},
		{"both sides", []string{"-s", "-x", "rw", "true"}, 125, "were all set"},
		{"wait and not", []string{"-n", "-w", "5", "k", "true"}, 125, "were all set"},
		{"a code that is none", []string{"-E", "256", "k", "true"}, 125, "from 0 to 255"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := *b
			b.TB = t
			p := b.run(tt.args...)
			require.Equal(t, tt.code, p.code(), p.err.String())
			if tt.text == "" {
				require.Empty(t, p.err.String())
				return
			}
			require.Contains(t, p.err.String(), tt.text)
			require.Equal(t, 1, p.err.Count("\n"), p.err.String())
			require.True(t, strings.HasPrefix(p.err.String(), "relock: "))
			require.Equal(t, 1, p.err.Count("relock: "), p.err.String())
		})
	}
}

// Without a server a call that does not wait fails. One that waits says why,
// and gets the lock when the server is back.
func TestServerIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.proxy.Refuse()
	require.Equal(t, codeFailed, b.run("-n", "k", "true").code())
	p := b.run("k", "true")
	testkit.Eventually(t, testkit.Patience,
		func() bool { return p.err.Count("waiting for the server") == 1 }, "it says nothing")
	b.proxy.Accept()
	require.Zero(t, p.code())
}

// The URL may be a secret: it is in no error.
func TestAddress(t *testing.T) {
	b := newBench(t)
	url := urlOf(b.server.Network, b.server.Address)
	wrong := "redis://user:secret@localhost:1"
	file := script(t, 0o600, url+"\n")
	self, err := os.Executable()
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		redis, relock string // in the environment
		flags         []string
		code          int
	}{
		"flag":       {wrong, wrong, []string{"--redis", url}, 0},
		"file":       {wrong, wrong, []string{"--redis-file", file}, 0},
		"RELOCK_URL": {wrong, url, nil, 0},
		"REDIS_URL":  {url, "", nil, 0},
		"both flags": {url, url, []string{"--redis-file", file, "--redis", url}, codeFailed},
		"no file":    {url, url, []string{"--redis-file", file + "x"}, codeFailed},
		"wrong URL":  {"", wrong + "/x", nil, codeFailed},
		"no server":  {"", wrong, nil, codeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("REDIS_URL", tt.redis)
			t.Setenv("RELOCK_URL", tt.relock)
			b := *b
			b.TB = t
			p := b.start(append(append([]string{self}, tt.flags...), "run", "-n", "k", "true"))
			require.Equal(t, tt.code, p.code(), p.err.String())
			require.NotContains(t, p.err.String(), "secret")
		})
	}
}

// The flags of the lock reach the library.
func TestFlagsOfTheLock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	flags := []string{"--prefix", "mine:", "--verbose", "run", "--fair", "--label", "nightly", "--min-hold", "1h"}
	p := b.start(
		b.relock(append(flags, "key", "sh", "-c", `trap "exit 0" TERM; sleep 1000 & echo ready; while :; do wait; done`)...))
	c, err := relock.NewClient(b.server.Network, b.server.Address, "", relock.WithKeyPrefix("mine:"))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // of a test
	p.says("ready")
	info, err := c.Inspect(t.Context(), "key")
	require.NoError(t, err)
	require.True(t, info.Fair)
	require.Equal(t, "nightly", info.Holder.Label)
	p.signal(unix.SIGTERM)
	require.Zero(t, p.code())
	info, err = c.Inspect(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, relock.StateKept, info.State, "the lock is not kept for its minimum")
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "0.5": 500 * time.Millisecond, "1e2": 100 * time.Second, "2m": 2 * time.Minute,
		"1h30m": 90 * time.Minute,
	} {
		var s seconds
		require.NoError(t, s.Set(text))
		require.Equal(t, want, time.Duration(s), text)
	}
	for _, text := range []string{"", "x", "-1", "-1s", "NaN", "Inf", "-Inf", "1e300", "5 s", "11y", "999999h"} {
		require.Error(t, new(seconds).Set(text), text)
	}
	require.Equal(t, "0", new(seconds).String())
}

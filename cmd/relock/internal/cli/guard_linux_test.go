package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/relock-go/relock/internal/test/testkit"
)

// If the guard is killed or crashes, relock ends what it has left. A program of
// Go that crashes exits with a code.
func TestGuardIsKilled(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]unix.Signal{
		"killed": unix.SIGKILL, "crashed": unix.SIGABRT,
	}, func(t *testing.T, _ string, sig unix.Signal) {
		b := newBench(t)
		p := b.run(append([]string{"key", "--"}, stubborn...)...)
		group := p.leader()
		require.NoError(t, unix.Kill(guardOf(t, group), sig))
		require.Equal(t, codeFailed, p.code())
		requireNoMembers(t, group)
		b.requireFree("key")
		require.Contains(t, p.err.String(), "the guard of the command was killed")
	})
}

// That is also so if the guard has not reported the command yet.
func TestGuardIsKilledByItsCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 5 {
		p := b.run("key", "sh", "-c", "sleep 97 & echo pid $$.; kill -KILL $PPID; sleep 97")
		require.Equal(t, codeFailed, p.code())
		requireNoMembers(t, p.leader())
	}
}

// If both are killed, the kernel ends the command itself.
func TestGuardAndRelockAreKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.run("key", "--", "sh", "-c", `trap "" TERM; echo pid $$.; while :; do sleep 0.1; done`)
	leader := p.leader()
	guard := guardOf(t, leader)
	p.kill()
	require.NoError(t, unix.Kill(guard, unix.SIGKILL))
	testkit.Eventually(t, testkit.Patience/2, func() bool {
		s, found := readStat(filepath.Join("/proc", strconv.Itoa(leader), "stat"))
		return !found || s.ended()
	}, "the command outlives both")
}

// A guard that was stopped continues when relock has an order for it.
func TestGuardIsStopped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, group := b.under("key")
	stop(t, guardOf(t, group))
	b.server.Do(t, "DEL", "relock:{key}")
	require.Equal(t, codeLost, p.code())
	requireNoMembers(t, group)
}

// It also continues in time for TERM and KILL, if renewals fail.
func TestStoppedGuardIsInTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.run("--lease", shortLease.String(), "key", "sh", "-c",
		`trap "echo TERM" TERM; echo pid $$.; while :; do sleep 0.1; done`)
	group := p.leader()
	stop(t, guardOf(t, group))
	b.proxy.Stall()
	p.says("TERM")
	require.Equal(t, codeLost, p.code())
	requireNoMembers(t, group)
}

// Signals that would end or stop a process do not end or stop the guard.
func TestGuardEnduresSignals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.run("--lease", shortLease.String(), "key", "--", "sh", "-c", `trap "" TERM; sleep 1000 & echo pid $$.; wait`)
	group := b.pair(p)
	for _, sig := range slices.Concat(passed, endured) {
		require.NoError(t, unix.Kill(guardOf(t, group), sig.(unix.Signal)))
	}
	p.kill()
	b.requireGoneInTime("key", group)
}

// startGuardAlone starts a guard with these orders, after which relock has
// ended. It returns the exit code, and the process of the command that the
// guard has reported.
func startGuardAlone(t *testing.T, command []string, orders ...order) (code, leader int) {
	t.Helper()
	inbox, to, err := os.Pipe()
	require.NoError(t, err)
	defer inbox.Close() //nolint:errcheck // a copy
	report, err := os.Create(filepath.Join(t.TempDir(), "report"))
	require.NoError(t, err)
	defer report.Close() //nolint:errcheck // a copy
	for _, o := range orders {
		require.NoError(t, writeNumber(to, int64(o)))
	}
	require.NoError(t, to.Close())
	const first = 3 // descriptor of ExtraFiles
	c := guardConfig{orders: first, report: first + 1, grace: time.Second, margin: 100 * time.Millisecond}
	self, err := os.Executable()
	require.NoError(t, err)
	path, err := exec.LookPath(command[0])
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, append([]string{path}, command...)...)
	cmd.Env = append(os.Environ(), guardVariable+"="+c.String(), "GORACE=atexit_sleep_ms=0")
	cmd.ExtraFiles = []*os.File{inbox, report}
	_ = cmd.Run() // the code counts
	_, err = report.Seek(0, io.SeekStart)
	require.NoError(t, err)
	leader, last, err := readReports(report)
	require.NoError(t, err)
	code = cmd.ProcessState.ExitCode()
	require.Contains(t, []int{-code, ended}, last)
	return code, leader
}

// The command does not start without a deadline, nor after it.
func TestCommandDoesNotStartTooLate(t *testing.T) {
	t.Parallel()
	const past = order(1) // a hold that has ended soon after the machine was started
	for name, orders := range map[string][]order{
		"relock has ended": nil,
		"the lock is lost": {lost},
		"it has passed":    {past},
		"it is too near":   {order(bootTime() + 50*time.Millisecond)},
	} {
		code, leader := startGuardAlone(t, []string{"true"}, orders...)
		require.Equal(t, codeLost, code, name)
		require.Zero(t, leader, "%s: it has started", name)
	}
	good := order(bootTime() + time.Hour)
	for _, orders := range [][]order{{good}, {past, good}} {
		_, leader := startGuardAlone(t, []string{"true"}, orders...)
		require.Positive(t, leader)
	}
	code, leader := startGuardAlone(t, []string{"true"}, past, -order(unix.SIGTERM))
	require.Equal(t, codeSignal+int(unix.SIGTERM), code)
	require.Zero(t, leader)
}

func TestGuardWithoutConfig(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1", "a,b,c,d,e"} {
		_, err := parseGuardConfig(text)
		require.ErrorContains(t, err, "is not set by relock", text)
	}
	want := guardConfig{1, 2, 3, 4, 5}
	got, err := parseGuardConfig(want.String())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

package cli

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/relock-go/relock/internal/test/testkit"
)

// aside leaves the group of its parent, as timeout(1) does.
const aside = `setsid sh -c 'trap "" TERM; echo pid $$.; while :; do sleep 0.1; done' & wait`

// What has left the group of the command ends with it, if it was ended because
// of the lock or by a signal.
func TestWhatHasLeftTheGroupEnds(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(b *bench, p *process, left int){
		"the lock is lost": func(b *bench, _ *process, _ int) { b.server.Do(b, "DEL", "relock:{key}") },
		"relock is killed": func(_ *bench, p *process, _ int) { p.kill() },
		"the guard is killed": func(b *bench, p *process, left int) {
			require.NoError(b, unix.Kill(guardOf(b, guardOf(b, left)), unix.SIGKILL))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.run("--lease", shortLease.String(), "key", "--", "sh", "-c", aside)
			left := p.leader()
			harm(b, p, left)
			awaitNoMembers(t, left)
			b.hold("key")
		})
	}
}

// A relock below another one, and its command, end before others can get the
// outer lock.
func TestNestedRuns(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(b *bench, p *process, inner int){
		"the outer lock is lost":     func(b *bench, _ *process, _ int) { b.server.Do(b, "DEL", "relock:{outer}") },
		"the outer relock is killed": func(_ *bench, p *process, _ int) { p.kill() },
		"the inner relock is killed": func(b *bench, _ *process, inner int) {
			require.NoError(b, unix.Kill(guardOf(b, guardOf(b, inner)), unix.SIGKILL))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			below := b.relock(append([]string{"run", "--lease", "2m", "inner", "--"}, stubborn...)...)
			p := b.run(append([]string{"--lease", shortLease.String(), "outer", "--"}, below...)...)
			group := b.pair(p)
			harm(b, p, group)
			if name == "the outer lock is lost" {
				require.Equal(t, codeLost, p.code())
				requireNoMembers(t, group)
				return
			}
			b.requireGoneInTime("outer", group)
		})
	}
}

// Both ways of finding children find those that a thread of this process has
// started, also when they have ended.
func TestChildrenAreFound(t *testing.T) {
	t.Parallel()
	runs := exec.Command("sleep", "100")
	ended := exec.Command("true")
	for _, c := range []*exec.Cmd{runs, ended} {
		require.NoError(t, c.Start())
	}
	defer func() {
		require.NoError(t, runs.Process.Kill())
		require.Error(t, runs.Wait())
		require.NoError(t, ended.Wait())
	}()
	testkit.Eventually(t, testkit.Patience, func() bool {
		s, found := readStat(filepath.Join("/proc", strconv.Itoa(ended.Process.Pid), "stat"))
		return found && s.ended()
	}, "true does not end")
	for name, find := range map[string]func() []int{"lists": children, "by parent": childrenByParent} {
		found := find()
		require.Contains(t, found, runs.Process.Pid, name)
		require.Contains(t, found, ended.Process.Pid, name)
		require.NotContains(t, found, 1, name)
	}
}

// The code of a command that has left its group is known.
func TestCommandLeavesItsGroup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.run("key", "--", "perl", "-e", `setpgrp(0, getpgrp(getppid())) or die; exit 3`)
	require.Equal(t, 3, p.code(), p.err.String())
}

// Processes that had another parent's place before relock are not ended.
func TestChildrenFromBeforeStay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	line := b.relock(append([]string{"run", "key", "--"}, stubborn...)...)
	p := b.start(append([]string{"sh", "-c", `sleep 96 & echo before $!; exec "$@"`, "sh"}, line...))
	group := p.leader()
	_, rest, _ := strings.Cut(p.out.String(), "before ")
	before, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	require.NoError(t, unix.Kill(guardOf(t, group), unix.SIGKILL))
	require.Equal(t, codeFailed, p.code())
	requireNoMembers(t, group)
	require.NoError(t, unix.Kill(before, unix.SIGKILL), "it was ended")
}

// Nobody has to read what relock says.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	line := b.relock(append([]string{"run", "key", "--"}, stubborn...)...)
	p := b.start(append([]string{"sh", "-c", `exec 3>&1; { "$@" >&3; echo code $? >&3; } 2>&1 | :`, "sh"}, line...))
	group := p.leader()
	b.server.Do(t, "DEL", "relock:{key}")
	require.Zero(t, p.code())
	requireNoMembers(t, group)
	require.Contains(t, p.out.String(), "code 124\n")
}

package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
)

// shortLease is the lease of tests that wait for its end.
const shortLease = 5 * time.Second

// under starts a stubborn command under a lock with a short lease, and returns
// its group.
func (b *bench) under(key string) (p *process, group int) {
	b.Helper()
	p = b.run(append([]string{"--lease", shortLease.String(), key, "--"}, stubborn...)...)
	return p, b.pair(p)
}

// pair waits until a stubborn command runs, with a child, and returns its
// group.
func (b *bench) pair(p *process) (group int) {
	b.Helper()
	group = p.leader()
	require.Greater(b, len(members(b, group)), 1)
	return group
}

// requireGoneInTime waits until others get the lock. No process of the group is
// left then, unless this machine is late.
func (b *bench) requireGoneInTime(key string, group int) {
	b.Helper()
	watch := testkit.NewStopwatch(b)
	b.hold(key)
	if free := time.Now(); len(members(b, group)) > 0 {
		awaitNoMembers(b, group)
		watch.Check(time.Since(free), 0, "of the command after others got the lock")
	}
}

// The command and what it has started end before others can get the lock,
// whatever becomes of relock and the server.
func TestCommandEndsBeforeTheLease(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(b *bench, p *process){
		"relock is killed":     func(_ *bench, p *process) { p.kill() },
		"relock is stopped":    func(_ *bench, p *process) { stop(p, p.cmd.Process.Pid) },
		"the server is silent": func(b *bench, _ *process) { b.proxy.Stall() },
		"the server is away":   func(b *bench, _ *process) { b.proxy.Refuse() },
		"the guard is stopped, and the server is silent": func(b *bench, p *process) {
			stop(b, guardOf(b, p.leader()))
			b.proxy.Stall()
		},
	}, func(t *testing.T, _ string, harm func(b *bench, p *process)) {
		b := newBench(t)
		p, group := b.under("key")
		harm(b, p)
		b.requireGoneInTime("key", group)
		b.proxy.Resume()
		b.proxy.Accept()
		_ = p.cmd.Process.Signal(unix.SIGCONT) // it may have been killed
		if code := p.code(); code != -1 {
			require.Equal(t, codeLost, code, p.err.String())
			require.Equal(t, 1, p.err.Count("\n"), p.err.String())
		}
	})
}

// The lease counts from before the request. Answers that are late do not
// lengthen it.
func TestLateAnswersDoNotLengthenTheLease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.proxy.On(faults.Any, faults.Every, faults.Delay(shortLease/6))
	p, group := b.under("key")
	renewed := func() bool { return b.left("key") > shortLease-shortLease/8 }
	testkit.Eventually(t, testkit.Patience, func() bool { return !renewed() }, "the lease does not pass")
	testkit.Eventually(t, testkit.Patience, renewed, "the lease is not renewed")
	testkit.Eventually(t, testkit.Patience,
		func() bool { return b.left("key") < shortLease-shortLease/6-100*time.Millisecond }, "the answer does not come")
	stop(t, p.cmd.Process.Pid)
	b.requireGoneInTime("key", group)
}

// A command that obeys TERM need not wait for KILL.
func TestCommandGetsTermFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.run("--lease", "2m", "key", "sh", "-c", "echo pid $$.; sleep 1000")
	group := p.leader()
	p.kill()
	awaitNoMembers(t, group)
}

// A hold that is lost for certain ends the command immediately. There is no
// time for a TERM.
func TestLostLockEndsTheCommand(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(b *bench){
		"an operator has ended the hold": func(b *bench) {
			require.NoError(b, b.client().ForceUnlock(b.Context(), "key", "maintenance"))
		},
		"the key is gone": func(b *bench) { b.server.Do(b, "DEL", "relock:{key}") },
	}, func(t *testing.T, _ string, lose func(b *bench)) {
		b := newBench(t)
		p := b.run("--lease", shortLease.String(), "key", "sh", "-c",
			`trap "echo TERM" TERM; echo pid $$.; while :; do sleep 0.1; done`)
		group := p.leader()
		lose(b)
		require.Equal(t, codeLost, p.code())
		requireNoMembers(t, group)
		require.NotContains(t, p.out.String(), "TERM")
		require.Contains(t, p.err.String(), "lock lost")
	})
}

// The lock is held until no process of the command's group is left.
func TestNothingIsLeftAtTheRelease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.run("key", "--", "sh", "-c", `sleep 97 & (sleep 97 &) ; echo pid $$.; exit 3`)
	group := p.leader()
	require.Equal(t, 3, p.code())
	requireNoMembers(t, group)
	b.requireFree("key")
	require.Empty(t, p.err.String())
}

func TestLockIsHeldWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.run("--lease", shortLease.String(), "key", "--", "sh", "-c", `echo ready; sleep 7; echo done`)
	p.says("ready")
	other := relock.NewRedisLock("key", b.client(), relock.WithBlock())
	h, err := other.Acquire(t.Context())
	require.NoError(t, err)
	require.Contains(t, p.out.String(), "done", "others got the lock before the command had ended")
	require.NoError(t, h.Unlock(t.Context()))
	require.Zero(t, p.code())
}

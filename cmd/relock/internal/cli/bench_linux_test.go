package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// bench is a server, a proxy in front of it, and processes of relock that use
// the proxy.
type bench struct {
	testing.TB
	server *redistest.Server
	proxy  *faults.Proxy
	stdin  io.Reader // of the processes
}

func newBench(t testing.TB) *bench {
	t.Helper()
	s := redistest.Start(t)
	return &bench{TB: t, server: s, proxy: faults.Start(t, s.Network, s.Address)}
}

func urlOf(network, address string) string {
	if network == "unix" {
		return "unix://" + address
	}
	return "redis://" + address
}

// client returns a client that has the locks of relock.
func (b *bench) client() *relock.Client {
	b.Helper()
	return locktest.CloseLater(b)(relock.NewClient(b.server.Network, b.server.Address, ""))
}

// hold takes a lock when it is free.
func (b *bench) hold(key string) relock.Hold {
	b.Helper()
	h, err := relock.NewRedisLock(key, b.client(), relock.WithBlock(), relock.WithWatchdog(shortLease)).
		Acquire(b.Context())
	require.NoError(b, err)
	return h
}

// left returns how long the key stays without a renewal, and -2 ms without one.
func (b *bench) left(key string) time.Duration {
	b.Helper()
	ms, err := redis.Int64(b.server.Do(b, "PTTL", "relock:{"+key+"}"), nil)
	require.NoError(b, err)
	return time.Duration(ms) * time.Millisecond
}

func (b *bench) requireFree(key string) {
	b.Helper()
	require.Equal(b, -2*time.Millisecond, b.left(key), "the lock is not free")
}

// process is a running program.
type process struct {
	testing.TB
	cmd      *exec.Cmd
	out, err testkit.Log
	done     chan struct{}
}

// run starts relock run with these arguments.
func (b *bench) run(args ...string) *process {
	b.Helper()
	return b.start(b.relock(append([]string{"run"}, args...)...))
}

// relock returns the command line of relock.
func (b *bench) relock(args ...string) []string {
	b.Helper()
	self, err := os.Executable()
	require.NoError(b, err)
	return append([]string{self, "--redis", urlOf(b.proxy.Network, b.proxy.Address)}, args...)
}

// start starts a program that ends with the test.
func (b *bench) start(argv []string) *process {
	b.Helper()
	p := &process{TB: b, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asRelock+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = b.stdin, &p.out, &p.err
	p.cmd.WaitDelay = time.Second // what a failed test leaves may keep the pipes open
	p.begin()
	return p
}

// begin locks a thread: the kernel ends the program with it.
func (p *process) begin() {
	p.Helper()
	if p.cmd.SysProcAttr == nil {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		if started <- err; err == nil {
			_ = p.cmd.Wait() // the test reads the code
		}
	}()
	require.NoError(p, <-started)
	p.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has usually ended
		<-p.done
	})
}

// code waits for the end and returns the exit code, or -1 after a signal.
func (p *process) code() int {
	p.Helper()
	_, ended := testkit.Await(p.done, testkit.Patience)
	require.True(p, ended, "relock does not end: %s", p.err.String())
	return p.cmd.ProcessState.ExitCode()
}

// says waits until the program has written a text.
func (p *process) says(text string) {
	p.Helper()
	defer func() {
		if p.Failed() {
			p.Logf("stdout: %s\nstderr: %s", p.out.String(), p.err.String())
		}
	}()
	testkit.Eventually(p, testkit.Patience,
		func() bool { return strings.Contains(p.out.String(), text) }, "it does not say "+text)
}

func (p *process) signal(sig syscall.Signal) {
	p.Helper()
	require.NoError(p, p.cmd.Process.Signal(sig))
}

// kill ends relock as kill -9 does.
func (p *process) kill() {
	p.Helper()
	p.signal(unix.SIGKILL)
	<-p.done
}

// stubborn ignores TERM, as do its children. It writes its process number,
// which is that of its group.
var stubborn = []string{"sh", "-c", `trap "" TERM; sleep 100 & echo pid $$.; sleep 100`}

// leader waits until the command has written its process number.
func (p *process) leader() int {
	p.Helper()
	p.says(".")
	_, rest, _ := strings.Cut(p.out.String(), "pid ")
	text, _, _ := strings.Cut(rest, ".")
	pid, err := strconv.Atoi(text)
	require.NoError(p, err)
	return pid
}

// stat is a line of /proc.
type stat struct {
	state         byte
	parent, group int
}

func readStat(path string) (s stat, found bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return s, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 3 {
		return s, false
	}
	s.state = fields[0][0]
	s.parent, _ = strconv.Atoi(string(fields[1]))
	s.group, _ = strconv.Atoi(string(fields[2]))
	return s, true
}

func (s stat) ended() bool { return s.state == 'Z' || s.state == 'X' }

// members returns the processes of a group that have not ended, by their files
// in /proc.
func members(t testing.TB, group int) (left []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range paths {
		if s, found := readStat(path); found && s.group == group && !s.ended() {
			left = append(left, path)
		}
	}
	return left
}

func requireNoMembers(t testing.TB, group int) {
	t.Helper()
	require.Empty(t, members(t, group), "processes of the command are left")
}

// awaitNoMembers is for what ends without a promise of time.
func awaitNoMembers(t testing.TB, group int) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool { return len(members(t, group)) == 0 },
		"processes of the command are left")
}

// guardOf returns the guard of a command.
func guardOf(t testing.TB, leader int) int {
	t.Helper()
	s, found := readStat(filepath.Join("/proc", strconv.Itoa(leader), "stat"))
	require.True(t, found)
	return s.parent
}

// stop stops a process, and waits until each of its threads has stopped.
func stop(t testing.TB, pid int) {
	t.Helper()
	require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	testkit.Eventually(t, testkit.Patience, func() bool {
		paths, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
		for _, path := range paths {
			if s, found := readStat(path); found && s.state != 'T' {
				return false
			}
		}
		return err == nil && len(paths) > 0
	}, "the process does not stop")
}

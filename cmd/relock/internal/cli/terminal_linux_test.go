package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/relock-go/relock/internal/test/testkit"
)

// terminal is a shell with a terminal, and what is on its screen.
type terminal struct {
	*process
	keyboard *os.File
}

// terminal runs a script on a new terminal, with job control. In it "$@" is
// relock run --foreground with these arguments.
func (b *bench) terminal(text string, args ...string) *terminal {
	b.Helper()
	argv := b.shell(text, append([]string{"--foreground"}, args...)...)
	return b.onTerminal(append([]string{argv[0], "-m"}, argv[1:]...))
}

// onTerminal runs a program on a new terminal, with more variables.
func (b *bench) onTerminal(argv []string, env ...string) *terminal {
	b.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	require.NoError(b, err)
	control := os.NewFile(uintptr(fd), "ptmx")
	require.NoError(b, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(b, err)
	side, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(b, err)
	defer side.Close() //nolint:errcheck // a copy

	p := &process{TB: b, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), asRelock+"=1", "GORACE=atexit_sleep_ms=0"), env...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = side, side, side
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(&p.out, control) // ends with the last process on the terminal
	}()
	b.Cleanup(func() {
		_ = control.Close() // which hangs up
		<-shown
	})
	p.begin()
	return &terminal{p, control}
}

func (t *terminal) types(keys string) {
	t.Helper()
	_, err := t.keyboard.WriteString(keys)
	require.NoError(t, err)
}

func TestForegroundReadsTheTerminal(t *testing.T) {
	t.Parallel()
	term := newBench(t).terminal(`"$@"; echo code $?.`, "key", "sh", "-c", `echo ready; read x; echo "got <$x>"`)
	term.says("ready")
	term.types("password\n")
	term.says("got <password>")
	term.says("code 0.")
}

// Ctrl-C reaches the command once.
func TestForegroundInterrupt(t *testing.T) {
	t.Parallel()
	counts := `trap "n=x\$n" INT; sleep 1000 & echo ready; while [ -z "$n" ]; do wait; done; ` +
		`sleep 0.3; kill $!; echo "got <$n>"; exit 6`
	term := newBench(t).terminal(`"$@"; echo code $?.`, "key", "sh", "-c", counts)
	term.says("ready")
	term.types("\x03")
	term.says("got <x>")
	term.says("code 6.")
}

// Ctrl-Z stops relock and the command, and fg continues both.
func TestForegroundStop(t *testing.T) {
	t.Parallel()
	term := newBench(t).terminal(`"$@"; echo stopped; read x; fg; echo code $?.`, "key", "sh", "-c",
		`echo pid $$.; read x; echo "got <$x>"`)
	command := filepath.Join("/proc", strconv.Itoa(term.leader()), "stat")
	stopped := func() bool {
		s, found := readStat(command)
		return found && s.state == 'T'
	}
	term.types("\x1a")
	term.says("stopped")
	testkit.Eventually(t, testkit.Patience, stopped, "the command does not stop")
	term.types("go on\n")
	testkit.Eventually(t, testkit.Patience, func() bool { return !stopped() }, "the command does not continue")
	term.types("word\n")
	term.says("got <word>")
	term.says("code 0.")
}

// A command that stays stopped is ended in time.
func TestForegroundStopIsNoWayToKeepALock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	term := b.terminal(`"$@"; echo stopped; read x; fg; echo code $?.`, "--lease", shortLease.String(), "key", "sh", "-c",
		`echo ready; read x`)
	term.says("ready")
	term.types("\x1a")
	term.says("stopped")
	testkit.Eventually(t, testkit.Patience, func() bool { return b.left("key") < 0 }, "the lease does not end")
	term.types("go on\n")
	term.says(fmt.Sprintf("code %d.", codeLost))
}

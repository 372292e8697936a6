//go:build linux || darwin

package cli

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// guarded is a command under a guard, as relock sees it.
type guarded struct {
	config         guardConfig
	before         []int       // children that this process had before the guard
	process        *os.Process // the guard
	orders, report *os.File
}

// launch starts a guard. It gets its ends of the pipes under the same numbers,
// so that the descriptors of the command stay as they are.
func launch(c guardConfig, argv, env []string) (*guarded, error) {
	inbox, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer inbox.Close() //nolint:errcheck // the guard has it
	report, outbox, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, orders.Close())
	}
	defer outbox.Close() //nolint:errcheck // the guard has it
	c.orders, c.report = inherited(inbox), inherited(outbox)
	before := children()
	process, err := os.StartProcess(ownProgram(), argv, &os.ProcAttr{
		Env:   withEnv(env, guardVariable+"="+c.String()),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return nil, errors.Join(err, orders.Close(), report.Close())
	}
	return &guarded{c, before, process, orders, report}, nil
}

// inherited returns the number of a file that the next process inherits.
func inherited(file *os.File) int {
	fd := file.Fd()
	_, _ = unix.FcntlInt(fd, unix.F_SETFD, 0) // fails for no open file
	return int(fd)
}

// ownProgram returns the path of this program. On Linux it is also right if the
// file was replaced meanwhile.
func ownProgram() string {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link
	}
	path, _ := os.Executable() // if it is not known, the start fails
	return path
}

// order sends an order. A guard that was stopped continues. The pipe has room
// for thousands of orders, and none may be dropped: a loss is sent once.
func (g *guarded) order(o order) {
	_ = writeNumber(g.orders, int64(o)) // await notices the end of the guard
	_ = g.process.Signal(unix.SIGCONT)  // it may have ended
}

var (
	errGuardKilled = errors.New("the guard of the command was killed, and the command was ended")
	errNotRenewed  = errors.New("the lock was not renewed in time: the command was ended, or not started")
)

// await waits until the guard has ended, and with it the command. Its error has
// the exit code.
func (g *guarded) await() error {
	leader, last, crashed := readReports(g.report)
	_, err := g.process.Wait()
	_, _ = g.orders.Close(), g.report.Close()
	switch {
	case crashed != nil || err != nil:
		g.endCommand(leader)
		return exit(codeFailed, errGuardKilled)
	case last == ended:
		return exit(codeLost, errNotRenewed)
	}
	return exit(-last, nil)
}

// readReports returns what a guard has reported: the command's process, or 0 if
// it has not started, and the last report.
func readReports(from io.Reader) (leader, last int, err error) {
	n, err := readNumber(from)
	if n > 0 && err == nil {
		leader = int(n)
		n, err = readNumber(from)
	}
	return leader, int(n), err
}

// endCommand ends the command in place of its guard. This process is the parent
// of what the guard has left, so the numbers are not used again. If the command
// was not reported yet, it is one of those children.
func (g *guarded) endCommand(leader int) {
	if leader != 0 {
		target := g.config.target(leader)
		send(target, unix.SIGKILL)
		reap(target, leader, 0)
	}
	if leader == 0 || g.config.group == 0 {
		sweep(g.before)
	}
}

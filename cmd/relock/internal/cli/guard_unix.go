//go:build linux || darwin

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// guardVariable makes a process the guard of another relock. It has the
// guardConfig.
const guardVariable = "RELOCK_GUARD"

// guardConfig is what relock passes to its guard.
type guardConfig struct {
	orders, report int           // descriptors of its ends of the pipes
	group          int           // the process group that the command joins; 0 is a new one
	grace, margin  time.Duration // TERM and KILL come so long before the end of the hold
}

const guardFormat = "%d,%d,%d,%d,%d"

func (c guardConfig) String() string {
	return fmt.Sprintf(guardFormat, c.orders, c.report, c.group, c.grace, c.margin)
}

func parseGuardConfig(text string) (c guardConfig, err error) {
	if _, err = fmt.Sscanf(text, guardFormat, &c.orders, &c.report, &c.group, &c.grace, &c.margin); err != nil {
		return c, fmt.Errorf("%s is not set by relock: %w", guardVariable, err)
	}
	return c, nil
}

// guard ends a command in time.
type guard struct {
	guardConfig

	inbox  chan order    // what relock orders; closed when relock has ended
	alarm  *alarm        // rings when check is due
	until  time.Duration // the end of the hold, by the boot clock
	warned bool          // the command got TERM since the last renewal
	ending bool          // the command was ended because of the lock
	leader int           // the command's process; 0 before its start
	out    *os.File      // for reports
}

// guardMain runs a command as the guard of another relock, and returns the exit
// code. The arguments are the path of the program, and those of the command.
func guardMain(config string, args []string) int {
	runtime.LockOSThread() // the kernel ends the command with the thread that has started it
	c, err := parseGuardConfig(config)
	if err == nil && len(args) < 2 {
		err = errors.New("the guard needs a path and a command")
	}
	if err != nil {
		say(os.Stderr, err)
		return codeFailed
	}
	unix.CloseOnExec(c.orders)
	unix.CloseOnExec(c.report)
	endure()
	out := os.NewFile(uintptr(c.report), "report")
	code, lost, err := c.guard(out, args[0], args[1:])
	last := -code
	if lost {
		code, last = codeLost, ended
	}
	_ = writeNumber(out, int64(last)) // relock may have ended
	say(os.Stderr, err)
	return code
}

// guard runs the command until no process of its group is left. lost reports
// whether the command was ended, or not started, because of the lock.
func (c guardConfig) guard(out *os.File, path string, argv []string) (code int, lost bool, err error) {
	g, err := newGuard(c, out)
	if err != nil {
		return codeFailed, false, err
	}
	if code, held := g.awaitHold(); !held {
		return code, code == 0, nil
	}
	if err := g.start(path, argv); err != nil {
		return codeOfStart(err), false, err
	}
	code = g.end(g.watch(endOf(g.leader)))
	return code, g.ending, nil
}

// awaitHold waits for the end of a hold that is not near. The first order may
// be old, if this process took long to start. A signal that comes before gives
// the exit code.
func (g *guard) awaitHold() (code int, held bool) {
	for o := range g.inbox {
		switch {
		case o == lost:
			return 0, false
		case o < 0:
			return codeSignal + int(-o), false
		}
		g.ending = false
		g.obey(o)
		if g.check(); !g.ending {
			return 0, true
		}
	}
	return 0, false
}

func newGuard(c guardConfig, out *os.File) (*guard, error) {
	if err := adopt(); err != nil {
		return nil, err
	}
	rings, err := newAlarm()
	if err != nil {
		return nil, err
	}
	g := &guard{guardConfig: c, inbox: make(chan order), alarm: rings, out: out}
	from := os.NewFile(uintptr(c.orders), "orders")
	go func() { // ends with relock, or with this process
		defer close(g.inbox)
		for n, err := readNumber(from); err == nil; n, err = readNumber(from) {
			g.inbox <- order(n)
		}
	}()
	return g, nil
}

// start starts the command, and reports its process.
func (g *guard) start(path string, argv []string) error {
	process, err := os.StartProcess(path, argv, &os.ProcAttr{
		Env:   withEnv(os.Environ(), guardVariable),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   commandAttributes(g.group),
	})
	if err != nil {
		return err
	}
	g.leader = process.Pid
	_ = writeNumber(g.out, int64(g.leader)) // relock may have ended
	return nil
}

// codeOfStart is as env(1) has it. That of a script without its interpreter is
// codeNotFound too.
func codeOfStart(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return codeNotFound
	}
	return codeCannotRun
}

// watch obeys orders, and ends the command in time. It returns the status of
// the command once that has ended.
func (g *guard) watch(done <-chan status) status {
	inbox := g.inbox
	for {
		select {
		case s := <-done:
			return s
		case o, open := <-inbox:
			if !open {
				inbox = nil
				g.warn()
			} else {
				g.obey(o)
			}
		case <-g.alarm.C:
		}
		g.check()
	}
}

// obey carries out an order.
func (g *guard) obey(o order) {
	if o < 0 {
		g.signal(unix.Signal(-o))
		return
	}
	if until := time.Duration(o); until != g.until { // else it is the last order, once more
		g.until, g.warned = until, false
	}
}

// check ends the command as far as it is time, and sets the alarm for what is
// next.
func (g *guard) check() {
	now := bootTime()
	if now >= g.until-g.margin {
		g.ending = true
		g.signal(unix.SIGKILL)
		send(g.leader, unix.SIGKILL) // it may have left its group
		return
	}
	if now >= g.until-g.grace && !g.warned {
		g.warn()
	}
	next := g.until - g.margin
	if !g.warned {
		next = min(next, g.until-g.grace)
	}
	g.alarm.set(next)
}

// warn lets the command end itself. One that was stopped could not.
func (g *guard) warn() {
	g.warned, g.ending = true, true
	g.signal(unix.SIGTERM)
	g.signal(unix.SIGCONT)
}

// target is what signals go to: the command's group, or in the group of relock
// the command itself.
func (c guardConfig) target(leader int) int {
	if c.group == 0 {
		return -leader
	}
	return leader
}

func (g *guard) signal(sig unix.Signal) { send(g.target(g.leader), sig) }

// end ends what the command has left, and returns its exit code. If the command
// was ended, so is what has left its group.
func (g *guard) end(s status) int {
	target := g.target(g.leader)
	if target < 0 {
		send(target, unix.SIGKILL) // the leader is not reaped yet, so the number is still the group's
	}
	s = reap(target, g.leader, s)
	s = reap(g.leader, g.leader, s) // it may have left its group
	if target < 0 && (g.ending || s.Signaled()) {
		sweep(nil)
	}
	if s.Signaled() {
		return codeSignal + int(s.Signal())
	}
	return s.ExitStatus()
}

package faults

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Child is a helper process: the test binary, started again in a role. It dies
// with the test, and with the test's process.
type Child struct {
	tb    testing.TB
	role  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{} // closed when the process has ended and all its events were read
	err   error         // the result of the process; read after done

	mu      sync.Mutex
	events  []Event
	seen    int           // how many Next has passed
	changed chan struct{} // closed and replaced when events grows
	killed  bool
}

// Program is what a helper process runs. The zero value is the test binary.
type Program struct {
	Path string   // of another test binary of the package
	Env  []string // in addition to the test's own
}

// Spawn starts a helper process in one of the roles that the package's TestMain
// passes to RunChild. Its stderr goes to the test's log. A child that fails,
// unless it was killed, fails the test.
func Spawn(tb testing.TB, role string, args ...string) *Child {
	tb.Helper()
	return Program{}.Spawn(tb, role, args...)
}

// Spawn starts a helper process that runs the program.
func (p Program) Spawn(tb testing.TB, role string, args ...string) *Child {
	tb.Helper()
	var err error
	if p.Path == "" {
		if p.Path, err = os.Executable(); err != nil {
			tb.Fatal(err)
		}
	}
	c := &Child{tb: tb, role: role, done: make(chan struct{}), changed: make(chan struct{})}
	c.cmd = exec.Command(p.Path, append([]string{"--"}, args...)...)
	c.cmd.Env = append(append(os.Environ(), p.Env...), roleVariable+"="+role,
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // without it each exit takes a second
	c.cmd.Stderr = testLog{tb, role}
	// In its own group: the end of a shell continues what is stopped in the
	// shell's group.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	started := make(chan error)
	go c.run(stdout, started)
	if err := <-started; err != nil {
		tb.Fatalf("faults: start a child: %v", err)
	}
	tb.Cleanup(c.finish)
	return c
}

// run starts the process and reads its events until it has ended. It locks its
// thread: the kernel kills the child when the thread that started it ends, not
// when the process does.
func (c *Child) run(stdout io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		c.book(lines.Text())
	}
	c.err = c.cmd.Wait()
}

// book records one event. A child that was killed may have written half a line.
func (c *Child) book(line string) {
	event, ok := parseEvent(line)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ok {
		if !c.killed {
			c.tb.Errorf("faults: child %s wrote %q", c.role, line)
		}
		return
	}
	c.events = append(c.events, event)
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Child) finish() {
	select {
	case <-c.done:
	default:
		c.Kill()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil && !c.killed {
		c.tb.Errorf("faults: child %s: %v", c.role, c.err)
	}
}

// Kill ends the process immediately, as kill -9 does, and waits for its end.
func (c *Child) Kill() {
	c.mu.Lock()
	c.killed = true
	c.mu.Unlock()
	_ = c.cmd.Process.Kill() // it may have ended already
	<-c.done
}

// End closes the child's stdin, which asks the child to end, and waits for its
// end.
func (c *Child) End(limit time.Duration) {
	c.tb.Helper()
	_ = c.stdin.Close()
	select {
	case <-c.done:
	case <-time.After(limit):
		c.tb.Fatalf("faults: child %s does not end", c.role)
	}
}

// Send sends the child a command.
func (c *Child) Send(words ...string) {
	c.tb.Helper()
	if _, err := io.WriteString(c.stdin, strings.Join(words, " ")+"\n"); err != nil {
		c.tb.Fatalf("faults: child %s: %v", c.role, err)
	}
}

// Next waits for the next event of this name and skips the events before it.
func (c *Child) Next(name string, limit time.Duration) Event {
	c.tb.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		event, ok, changed := c.find(name)
		if ok {
			return event
		}
		select {
		case <-changed:
		case <-c.done:
			if event, ok, _ := c.find(name); ok {
				return event
			}
			c.tb.Fatalf("faults: child %s ended without %q: %v", c.role, name, c.err)
		case <-timer.C:
			c.tb.Fatalf("faults: child %s: no %q within %v", c.role, name, limit)
		}
	}
}

func (c *Child) find(name string) (event Event, ok bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; c.seen < len(c.events); c.seen++ {
		if e := c.events[c.seen]; e.Name == name {
			c.seen++
			return e, true, nil
		}
	}
	return Event{}, false, c.changed
}

// Events returns all events so far.
func (c *Child) Events() []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Event(nil), c.events...)
}

// testLog writes the children's stderr to the test's log.
type testLog struct {
	tb   testing.TB
	role string
}

func (l testLog) Write(text []byte) (int, error) {
	l.tb.Logf("child %s: %s", l.role, strings.TrimSpace(string(text)))
	return len(text), nil
}

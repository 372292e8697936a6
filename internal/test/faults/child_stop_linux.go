package faults

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Stop stops the process (SIGSTOP), and returns once all its threads have
// stopped.
func (c *Child) Stop() {
	c.tb.Helper()
	c.signal(syscall.SIGSTOP)
	for end := time.Now().Add(10 * time.Second); !c.stopped(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			c.tb.Fatalf("faults: child %s does not stop", c.role)
		}
	}
}

// Continue resumes a stopped process.
func (c *Child) Continue() {
	c.tb.Helper()
	c.signal(syscall.SIGCONT)
}

func (c *Child) signal(sig syscall.Signal) {
	c.tb.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.tb.Fatalf("faults: child %s: %v: %v", c.role, sig, err)
	}
}

// stopped reports whether every thread has stopped. The state of a process is
// only that of its first thread.
func (c *Child) stopped() bool {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(c.cmd.Process.Pid), "task", "*", "stat"))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if err != nil || !isStopped(stat) {
			return false
		}
	}
	return true
}

func isStopped(stat []byte) bool { return stateOf(stat) == 'T' }

// stateOf returns the state in a line of /proc. It follows the name in
// brackets.
func stateOf(stat []byte) byte {
	rest := bytes.TrimLeft(stat[bytes.LastIndexByte(stat, ')')+1:], " ")
	if len(rest) == 0 {
		return 0
	}
	return rest[0]
}

package faults

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const childLimit = 20 * time.Second // for what a helper process does immediately

var childRoles = map[string]Role{
	"echo":  echoRole,
	"tick":  tickRole,
	"fail":  func(*Self) error { return errors.New("as requested") },
	"spawn": spawnRole,
}

func echoRole(self *Self) error {
	self.Emit("args", len(self.Args), self.Args[0])
	for line := range self.Commands {
		self.Emit("line", line, os.Getpid())
	}
	return nil
}

// tickRole reports every millisecond that it runs.
func tickRole(self *Self) error {
	for {
		self.Emit("tick")
		select {
		case <-self.Commands:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}

// spawnRole is a parent itself, which the test kills.
func spawnRole(self *Self) error {
	t := &testing.T{}
	child := Spawn(t, "echo", "x")
	self.Emit("child", child.cmd.Process.Pid)
	<-self.Commands
	return nil
}

func TestChildIsInNoGroupOfAShell(t *testing.T) {
	t.Parallel()
	pid := Spawn(t, "echo", "x").cmd.Process.Pid
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	require.Equal(t, pid, group)
}

func TestChildTalks(t *testing.T) {
	t.Parallel()
	before := Now()
	c := Spawn(t, "echo", "-a b", "c")
	require.Equal(t, []string{"2", "-a b"}, c.Next("args", childLimit).Values)
	c.Send("hello", "you")
	event := c.Next("line", childLimit)
	require.Equal(t, "hello you", event.Values[0])
	require.NotEqual(t, int64(os.Getpid()), event.Int(1))
	require.Greater(t, event.At, before, "one clock")
	require.Less(t, event.At, Now())
	c.End(childLimit)
	require.Len(t, c.Events(), 2)
}

// A stopped child does nothing until it is continued.
func TestChildStops(t *testing.T) {
	t.Parallel()
	c := Spawn(t, "tick")
	c.Next("tick", childLimit)
	c.Stop()
	stopped := Now()
	time.Sleep(50 * time.Millisecond)
	continued := Now()
	c.Continue()
	for event := c.Next("tick", childLimit); event.At < continued; event = c.Next("tick", childLimit) {
		require.Less(t, event.At, stopped)
	}
	c.Stop()
	c.Kill() // although it is stopped
	events := c.Events()
	require.Less(t, events[len(events)-1].At, Now())
	require.True(t, c.killed)
	require.Error(t, c.err)
}

// spoiled is a test that may fail.
type spoiled struct {
	testing.TB
	failed chan string
}

func (s *spoiled) Errorf(format string, _ ...any) { s.failed <- format }

func TestChildThatFailsFailsTheTest(t *testing.T) {
	t.Parallel()
	s := &spoiled{TB: t, failed: make(chan string, 1)}
	c := Spawn(s, "fail")
	c.End(childLimit)
	c.finish()
	require.Contains(t, <-s.failed, "child")
	c.err = nil // reported once
}

// A child dies with the process that started it, however that dies.
func TestChildDiesWithItsParent(t *testing.T) {
	t.Parallel()
	parent := Spawn(t, "spawn")
	pid := parent.Next("child", childLimit).Values[0]
	parent.Kill()
	for end := time.Now().Add(childLimit); alive(pid); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "the child outlived its parent")
	}
}

// alive reports whether a process runs. A process that has ended may still have
// to be reaped.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && stateOf(stat) != 'Z'
}

// A stamp lies between the readings of Now around its time, but for its error.
func TestStamp(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{-time.Hour, 0, time.Hour} {
		before := Now()
		at := time.Now()
		after := Now()
		stamp := Stamp(at.Add(offset)) - int64(offset)
		require.GreaterOrEqual(t, stamp, before-int64(stampError), offset)
		require.LessOrEqual(t, stamp, after, offset)
	}
}

func TestEventsAreOneLine(t *testing.T) {
	t.Parallel()
	event, ok := parseEvent(formatEvent(7, "a", []any{1, "x\ty\n"})[:len("7\ta\t1\tx y ")])
	require.True(t, ok)
	require.Equal(t, Event{7, "a", []string{"1", "x y "}}, event)
	_, ok = parseEvent(strconv.Itoa(7))
	require.False(t, ok)
}

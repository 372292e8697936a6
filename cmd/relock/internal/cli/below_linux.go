package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sweep ends all processes below this one that can be ended, but for some
// children with what is below them. The orphans of each that ends become
// children of this process, whatever group they are in, so they are next.
func sweep(except []int) {
	for {
		ended := false
		for _, pid := range children() {
			if slices.Contains(except, pid) {
				continue
			}
			if err := unix.Kill(pid, unix.SIGKILL); errors.Is(err, unix.EPERM) {
				except = append(except, pid)
				continue
			}
			reap(pid, pid, 0)
			ended = true
		}
		if !ended {
			return
		}
	}
}

// children returns the children of this process. One that has ended is among
// them until it is waited for.
func children() []int {
	lists, _ := filepath.Glob("/proc/self/task/*/children") // fails for no pattern that is right
	if len(lists) == 0 {
		return childrenByParent()
	}
	var pids []int
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread that has ended left its children to another one
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// childrenByParent is for kernels that have no such lists. It reads a file of
// each process of the machine, which may take longer than the margin of a lease
// if there are thousands of them, or if the machine is busy.
func childrenByParent() (pids []int) {
	self := strconv.Itoa(os.Getpid())
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name is in parentheses, and may have some. The state and the
		// parent follow.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != self {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

package cli

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bootTime returns the time by a clock that all processes of the machine share,
// and that continues while the machine sleeps.
func bootTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // fails for no clock that exists
	return time.Duration(now.Nano())
}

// adopt does nothing: this system gives orphans to launchd.
func adopt() error { return nil }

// commandAttributes puts the command into a group, or into a new one for 0.
func commandAttributes(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group}
}

// endOf returns a channel that gets the status of the process once it has
// ended. It is reaped, as waitid of this system also reports processes that
// have stopped. So if its group is empty, the number may be used again.
func endOf(leader int) <-chan status {
	done := make(chan status, 1)
	go func() {
		var s status
		for {
			if _, err := unix.Wait4(leader, &s, 0, nil); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		done <- s
	}()
	return done
}

// nextEnded returns 0: this process is not the parent of orphans.
func nextEnded() int { return 0 }

// sweep does nothing: what leaves the group of the command is not found.
func sweep([]int) {}

// children returns none: nothing below this process becomes its child.
func children() []int { return nil }

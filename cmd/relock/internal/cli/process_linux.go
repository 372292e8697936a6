package cli

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bootTime returns the time by a clock that all processes of the machine share,
// and that continues while the machine is suspended.
func bootTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // fails for no clock that exists
	return time.Duration(now.Nano())
}

// adopt makes this process the parent of orphans below it, so that it can wait
// for them.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// commandAttributes puts the command into a group, or into a new one for 0. The
// kernel kills the command if its guard is killed.
func commandAttributes(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group, Pdeathsig: syscall.SIGKILL}
}

// endOf returns a channel that gets a status once the process has ended. The
// process is not reaped, so its number stays its own. Orphans that have ended
// are reaped meanwhile.
func endOf(leader int) <-chan status {
	done := make(chan status, 1)
	go func() {
		for pid := nextEnded(); pid != leader && pid != 0; pid = nextEnded() {
			_, _ = unix.Wait4(pid, nil, 0, nil) // it has ended
		}
		done <- 0
	}()
	return done
}

// pidAt is where struct siginfo has the number of the process. It is aligned as
// a pointer is.
const pidAt = 8 + unsafe.Sizeof(uintptr(0))

// nextEnded waits until a child has ended, and returns its number. The child is
// not reaped. nextEnded returns 0 if there is no child.
func nextEnded() int {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case err == nil:
			return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), pidAt)))
		case !errors.Is(err, unix.EINTR):
			return 0
		}
	}
}

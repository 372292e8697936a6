package suspend

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME, which continues while the machine is
// suspended.
const clockBoottime = 7

// WithSleep returns the time by a clock that continues while the machine is
// suspended. If that clock cannot be read, it returns awake.
func WithSleep() time.Duration {
	var now syscall.Timespec
	//nolint:gosec // the call writes to it
	_, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&now)), 0)
	if failed != 0 {
		return awake()
	}
	return time.Duration(now.Nano())
}

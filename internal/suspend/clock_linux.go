package suspend

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime goes on while the machine is suspended.
const clockBoottime = 7

// WithSleep is the time by a clock that goes on while the machine is suspended.
func WithSleep() time.Duration {
	var now syscall.Timespec
	_, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&now)), 0) //nolint:gosec // what the call writes to
	if failed != 0 {
		return Awake()
	}
	return time.Duration(now.Nano())
}

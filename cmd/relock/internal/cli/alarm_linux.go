package cli

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm rings at a time of the boot clock. It also rings when the machine wakes
// up after that time, which a timer of Go does not.
type alarm struct {
	C     chan struct{}
	timer *os.File
	fd    int // of the timer; File.Fd would change its mode
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	a := &alarm{make(chan struct{}, 1), os.NewFile(uintptr(fd), "timer"), fd}
	go a.listen()
	return a, nil
}

// listen passes on what the timer reports, as long as there is a timer.
func (a *alarm) listen() {
	for _, err := readNumber(a.timer); err == nil; _, err = readNumber(a.timer) {
		a.ring()
	}
}

func (a *alarm) ring() {
	select {
	case a.C <- struct{}{}:
	default: // it has rung already, and nobody has looked
	}
}

// set replaces the time at which the alarm rings. It rings immediately at one
// that has passed.
func (a *alarm) set(at time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, int64(at)))} // 0 would be never
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		a.ring() // to be busy is better than to be late
	}
}

package cli

import "time"

// alarm rings at a time of the boot clock. A timer of Go stands still while the
// machine sleeps, so it rings at least every 50 ms: KILL
// has a margin of 100 ms.
type alarm struct {
	C     <-chan time.Time
	timer *time.Timer
}

func newAlarm() (*alarm, error) {
	timer := time.NewTimer(time.Hour)
	return &alarm{timer.C, timer}, nil
}

// set replaces the time at which the alarm rings.
func (a *alarm) set(at time.Duration) {
	a.timer.Reset(min(at-bootTime(), 50*time.Millisecond))
}

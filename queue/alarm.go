package queue

import "time"

// alarm is the timer of all runs of a pool: a timer for each would take a tenth
// more time. The mutex of the pool guards it.
type alarm struct {
	fire    func()
	timer   *time.Timer // nil before the first run
	at      time.Time   // when it fires; zero if it is not set
	stopped bool
}

// set sets the alarm for this time, unless it fires before.
func (a *alarm) set(at time.Time) {
	if a.stopped || !a.at.IsZero() && !at.Before(a.at) {
		return
	}
	a.at = at
	if a.timer == nil {
		a.timer = time.AfterFunc(time.Until(at), a.fire)
		return
	}
	a.timer.Reset(time.Until(at))
}

// stop ends the alarm for good.
func (a *alarm) stop() {
	if a.stopped = true; a.timer != nil {
		a.timer.Stop()
	}
}

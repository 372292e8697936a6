package queue

import (
	"math"
	"time"
)

// patienceInLeases is after how many leases a run without WithTimeout is
// overdue. It is renewed for ever if it hangs.
const patienceInLeases = 100

// alarm is the timer of a process, for all of its runs: a timer for each would
// take a tenth more time. It is guarded by the mutex of the process.
type alarm struct {
	timer   *time.Timer // nil before the first run
	at      time.Time   // when it fires; zero if it is not set
	stopped bool
}

// limit returns after what time the context of a function is cancelled, or,
// without WithTimeout, after what time the run is overdue.
func (p *process) limit() time.Duration {
	if p.set.timeout > 0 {
		return p.set.timeout
	}
	return patienceInLeases * min(p.queue.set.lease, math.MaxInt64/patienceInLeases)
}

// alarmLocked sets the alarm for this time, unless it fires before.
func (p *process) alarmLocked(at time.Time) {
	a := &p.alarm
	if a.stopped || !a.at.IsZero() && !at.Before(a.at) {
		return
	}
	a.at = at
	if a.timer == nil {
		a.timer = time.AfterFunc(time.Until(at), p.check)
		return
	}
	a.timer.Reset(time.Until(at))
}

// check looks at all runs, and sets the alarm for the first that is due next.
func (p *process) check() {
	var next time.Time
	for _, r := range p.checked() {
		if again := r.expire(time.Now()); next.IsZero() || !again.IsZero() && again.Before(next) {
			next = again
		}
	}
	if !next.IsZero() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.alarmLocked(next)
	}
}

// checked returns the runs that the alarm concerns. One that begins later sets
// the alarm itself.
func (p *process) checked() []*run {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alarm.at = time.Time{}
	all := make([]*run, 0, len(p.running))
	for r := range p.running {
		all = append(all, r)
	}
	return all
}

// stopAlarm ends the alarm for good.
func (p *process) stopAlarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alarm.stopped = true; p.alarm.timer != nil {
		p.alarm.timer.Stop()
	}
}

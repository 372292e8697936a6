package lease

import "time"

// oldAfter is after how many leases a hold without a maximum is reported. It is
// renewed for ever if its Unlock was forgotten.
const oldAfter = 100

// warnIfOld logs once that a hold without a maximum is old by now. It belongs
// to the goroutine of the worker.
func warnIfOld(l *Lease, now time.Time) {
	l.Mu.Lock()
	age := now.Sub(l.Granted())
	l.Mu.Unlock()
	if l.task.old || age < oldAfter*l.Settings.Lease {
		return
	}
	forgotten := l.of.unlimited(l)
	if forgotten == nil {
		return // a later level may be
	}
	l.task.old = true
	if !l.of.isFirstOld() {
		return
	}
	what := forgotten.grant.About("held", age.Round(time.Second))
	if at := forgotten.report.AcquiredAt(); at != "" {
		what = append(what, "acquired", at)
	}
	l.client.Logger.Warn("relock: lock held for very long without WithMaxHold, an Unlock may be missing", what...)
}

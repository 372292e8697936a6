package lease

import "time"

// oldAfter is after how many leases a hold without a maximum is reported. It is
// renewed for ever if its Unlock was forgotten.
const oldAfter = 100

// Extended logs once that a hold without a maximum is old by now.
func (l *Lease) Extended(now time.Time) {
	age := l.age(now)
	if l.task.old || age < oldAfter*l.Settings.Lease {
		return
	}
	forgotten := l.unlimited()
	if l.memberOf != nil {
		forgotten = l.memberOf.unlimited()
	}
	if forgotten == nil {
		return // a later level may be
	}
	l.task.old = true
	if !l.memberOf.isFirstOld() {
		return
	}
	what := forgotten.grant.About("held", age.Round(time.Second))
	if at := forgotten.report.AcquiredAt(); at != "" {
		what = append(what, "acquired", at)
	}
	l.client.Logger.Warn("relock: lock held for very long without WithMaxHold, an Unlock may be missing", what...)
}

// age returns how long ago Redis granted the lease.
func (l *Lease) age(now time.Time) time.Duration {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return now.Sub(l.Granted())
}

// isUnlimited reports whether the hold is live and has no maximum; the mutex is
// held.
func (h *Hold) isUnlimited() bool { return h.maxHold == nil && h.ends.Err() == nil }

// unlimited returns the oldest live level without a maximum hold, or nil.
func (l *Lease) unlimited() *Hold {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, h := range l.levels.All {
		if h.isUnlimited() {
			return h
		}
	}
	return nil
}

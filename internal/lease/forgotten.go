package lease

import (
	"sync/atomic"
	"time"
)

// oldAfter is after how many leases a hold without a maximum is reported. It is
// renewed for ever if its Unlock was forgotten.
const oldAfter = 100

// reportOld logs once that a hold without a maximum is old by now.
func (r *renewal) reportOld(now time.Time) {
	l := r.lease
	age := l.age(now)
	if r.old || age < oldAfter*l.lease || l.isDelivery() {
		return
	}
	of, warned := l, (*atomic.Bool)(nil)
	if l.memberOf != nil {
		of, warned = l.memberOf.lease, &l.memberOf.old
	}
	forgotten := of.unlimited()
	if forgotten == nil {
		return // a later level may be
	}
	r.old = true
	if warned != nil && warned.Swap(true) {
		return
	}
	what := of.about("held", age.Round(time.Second))
	if at := forgotten.report.AcquiredAt(); at != "" {
		what = append(what, "acquired", at)
	}
	l.client.Logger.Warn("relock: lock held for very long without WithMaxHold, an Unlock may be missing", what...)
}

// age returns how long ago Redis granted the lease.
func (l *Lease) age(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(l.granted())
}

// unlimited returns the oldest live level without a maximum hold, or nil.
func (l *Lease) unlimited() *Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.levels.All {
		if h.maxHold == nil && h.ends.Err() == nil {
			return h
		}
	}
	return nil
}

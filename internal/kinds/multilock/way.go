package multilock

import (
	"time"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// way is the right of way of a call for a MultiLock. The call keeps the first n
// keys under one value while it waits for the key behind them. This is no hold:
// the try that takes all keys takes these again, with full leases.
type way struct {
	value string
	n     int       // 0 if no key is kept
	ends  time.Time // the kept keys expire then, or a little later
}

// maxMisses is how many keys a call is handed in vain before it keeps some. A
// lower number costs the holders of single keys more of their rate.
const maxMisses = 4

// keep returns how long the next try keeps the keys before a busy one, or 0 if
// it keeps none. A right of way is not extended.
func (a *attempt) keep() time.Duration {
	switch {
	case a.way.n > 0:
		return max(lockspec.MinLease, time.Until(a.way.ends))
	case a.misses >= maxMisses:
		return a.lock.part.RightOfWay()
	}
	return 0
}

// keptLeft returns how long the call may go on with the keys that it keeps. A
// tenth of the time remains to release them before they expire: a release
// notifies the next waiter, an expiry does not.
func (a *attempt) keptLeft() time.Duration {
	return time.Until(a.way.ends) - a.lock.part.RightOfWay()/10
}

// rest returns how long the call may wait before its next attempt. It returns 0
// if no key is kept, so that only a notification ends the wait.
func (a *attempt) rest() time.Duration {
	if a.way.n == 0 {
		return 0
	}
	return max(1, a.keptLeft())
}

// expireKept releases the kept keys when their time is over. The call then
// starts again, so that a caller that holds one of the keys gets the others.
func (a *attempt) expireKept() {
	if a.way.n > 0 && a.keptLeft() <= 0 {
		a.releaseKept()
		a.misses = 0
	}
}

// updateKept records the keys that a try kept under its value, for the duration
// asked. It releases the keys behind them that an earlier try kept.
func (a *attempt) updateKept(value string, t *tried, asked time.Duration) {
	old := a.way
	a.way = way{}
	if t.kept > 0 {
		a.way = way{value, t.kept, old.ends}
	}
	if t.kept > 0 && old.n == 0 {
		a.way.ends = t.sent[0].Add(asked)
	}
	if t.err != nil {
		a.returnKept(old, t.kept)
	}
}

// releaseKept releases all kept keys.
func (a *attempt) releaseKept() {
	a.returnKept(a.way, 0)
	a.way = way{}
}

// returnKept releases the kept keys of old, from the n-th on.
func (a *attempt) returnKept(old way, n int) {
	l := a.lock
	for ; n < old.n; n++ {
		job := l.cleanup(n, old.value, script.Indeterminate{})
		job.BestEffort = true // no hold depends on it, and the key expires soon
		l.Manager.Retrier.Retry(job)
	}
}

package lease

import (
	"errors"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// A failover may lose a grant that the old master has answered. So each hold
// asks the master whether it is there, as soon as the client knows of a change.
// A renewal asks. A lease that is not renewed sends one for a moment, which
// shortens nothing. The answer "not ours" ends the hold, as for any renewal.

// checkLength is the lease that a check requests, the shortest that scripts
// allow.
const checkLength = 10 * time.Millisecond

// recheckAll makes all grants ask. One that was requested before, and comes
// into the books later, asks as well, see start.
func (m *Manager) recheckAll() {
	m.switched.Store(int64(time.Since(m.expiry.start)))
	for _, r := range m.all() {
		r.recheck.Store(true)
		r.recheckNow()
	}
}

// isBeforeSwitch reports whether masters have changed since a request was sent.
func (m *Manager) isBeforeSwitch(sent time.Time) bool {
	return sent.Sub(m.expiry.start) < time.Duration(m.switched.Load())
}

// recheckNow makes the next renewal due if the grant has to ask.
func (r *Renewal) recheckNow() {
	if r.recheck.Load() {
		r.renewer().AddEarlier(&r.job, time.Now())
	}
}

// isThere reports whether a check has found the hold. Too few replicas are no
// reason against it: a new master lacks them at first.
func isThere(o driver.Result) bool {
	return o.Err == nil && o.Reply == int64(script.Ours) || errors.Is(o.Err, errs.ErrReplicas)
}

// checked returns when to renew after a check was answered.
func (r *Renewal) checked(sent time.Time) (time.Time, bool) {
	if r.watchedLease() == 0 {
		return time.Time{}, false
	}
	return r.renewAt(sent), true
}

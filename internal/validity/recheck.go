package validity

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

// CheckLength is the lease that a check requests, the shortest that scripts
// allow.
const CheckLength = 10 * time.Millisecond

// recheckAll makes all grants ask. One that was requested before, and comes
// into the books later, asks as well, see Start.
func (b *Books) recheckAll() {
	b.switched.Store(int64(time.Since(b.start)))
	for _, r := range b.All() {
		r.recheck.Store(true)
		r.RecheckNow()
	}
}

// isBeforeSwitch reports whether masters have changed since a request was sent.
func (b *Books) isBeforeSwitch(sent time.Time) bool {
	return b.Count(sent) < time.Duration(b.switched.Load())
}

// RecheckNow makes the next renewal due if the grant has to ask.
func (r *Renewal) RecheckNow() {
	if r.recheck.Load() {
		r.RunNow(time.Now())
	}
}

// IsThere reports whether a check has found the hold. Too few replicas are no
// reason against it: a new master lacks them at first.
func IsThere(o driver.Result) bool {
	return o.Err == nil && o.Reply == int64(script.OK) || errors.Is(o.Err, errs.ErrReplicas)
}

// Checked returns when to renew after a check was answered.
func (r *Renewal) Checked(sent time.Time) (time.Time, bool) {
	if r.watchedLease() == 0 {
		return time.Time{}, false
	}
	return r.renewAt(sent), true
}

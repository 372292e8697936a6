package validity

import (
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock/internal/background"
)

// The watchdog is a worker whose jobs are the grants that are renewed. A grant
// is renewed a third of its lease after the last sending. A failed attempt is
// repeated soon, as long as the grant is valid. The answer "not ours" means
// loss.

// MaxPause is the longest time between two renewals, however long the lease is:
// a renewal finds that an operator has ended the hold.
const MaxPause = time.Minute

// Schedule has the grant renewed in time after a request that was sent at sent.
func (r *Renewal) Schedule(sent time.Time) { r.renewer().Add(&r.job, r.renewAt(sent)) }

// RunNow makes the worker ask for the next request by then, or before.
func (r *Renewal) RunNow(then time.Time) { r.renewer().AddEarlier(&r.job, then) }

// RecheckNow makes the next renewal due if the grant has to ask.
func (r *Renewal) RecheckNow() {
	if r.recheck.Load() {
		r.RunNow(time.Now())
	}
}

// Checked returns when to renew after a check was answered.
func (r *Renewal) Checked(sent time.Time) (time.Time, bool) {
	if r.watchedLease() == 0 {
		return time.Time{}, false
	}
	return r.renewAt(sent), true
}

// renewAt returns when to renew after a request that was sent at sent. That is
// a third of the watched lease later, or the longest pause if that is shorter.
// It is earlier if the grant would be valid for less than two thirds of that
// lease.
func (r *Renewal) renewAt(sent time.Time) time.Time {
	watched := r.watchedLease()
	r.Mu.Lock()
	defer r.Mu.Unlock()
	at := sent.Add(Jitter(min(watched/3, MaxPause)))
	if latest := r.validUntil.Add(-watched * 2 / 3); latest.Before(at) {
		return latest
	}
	return at
}

// Jitter shortens d by up to a tenth, so that locks that were acquired together
// are not renewed together forever.
func Jitter(d time.Duration) time.Duration {
	if d < 10 {
		return d
	}
	return d - rand.N(d/10)
}

// watchedLease returns the longest lease that is wanted, or 0 if none is.
func (r *Renewal) watchedLease() time.Duration {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.watched
}

// Watch counts one more that wants a lease to be renewed; Mu must be held.
func (r *Renewal) Watch(length time.Duration) {
	switch {
	case length > r.watched:
		r.watched, r.watchers = length, 1
	case length == r.watched:
		r.watchers++
	}
}

// renewer returns the workers that renew the grant.
func (r *Renewal) renewer() *background.Fleet {
	return r.of.Books().fleets.of(r.Settings.Ack())
}

// Unwatch undoes Watch, and reports whether nobody else wants a lease of this
// length, which was the longest. The caller then watches for the others; Mu
// must be held.
func (r *Renewal) Unwatch(length time.Duration) (last bool) {
	if length != r.watched {
		return false
	}
	if r.watchers--; r.watchers > 0 {
		return false
	}
	r.watched = 0
	return true
}

// IsSuspect reports whether the server has refused the grant; Mu must be held.
func (r *Renewal) IsSuspect() bool { return r.suspect }

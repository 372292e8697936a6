package lease

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// The watchdog is a worker whose jobs are the leases that have a watched level.
// A lease is renewed a third of its length after the last sending. A failed
// attempt is repeated soon, as long as the lease is valid. The answer "not
// ours" means loss. The loss is declared once the notice was read, because the
// hold may have been ended by force. It is declared after noticeLimit if no
// answer comes.

// renewAhead is how much too early a lease may be renewed together with others.
// Many locks then cost a few large batches instead of many small ones.
const renewAhead = 10 * time.Millisecond

// maxRenewRetry is the longest pause after a failed renewal.
const maxRenewRetry = 500 * time.Millisecond

// renewal renews one lease. It belongs to the goroutine of its worker.
type renewal struct {
	lease   *Lease
	asked   time.Duration // the lease that the sending under way requests
	failing bool          // the last attempt failed, which was logged
	old     bool          // the hold is old, which was logged
	refused bool          // the server has refused the lease; the reason is being requested
	// The sending under way asks the new master whether the hold is there.
	rechecks bool
	claims   bool // the sending under way is the claim of a grant by message
}

// Next requests the longest lease that a watched level wants. If no watched
// level is left, the renewal ends, and the lease expires as last set, unless it
// has to ask whether it is there. A process that was paused for too long finds
// the loss here, and renews nothing.
func (r *renewal) Next(time.Time) (script.Call, bool) {
	if r.refused {
		r.claims = false
		return r.lease.askNotice()
	}
	if r.lease.check() != nil {
		return script.Call{}, false
	}
	var claim script.Call
	if claim, r.claims = r.lease.sendClaim(); r.claims {
		return claim, true
	}
	return r.toRenew()
}

// Key returns the key of the lock.
func (r *renewal) Key() string { return r.lease.protocol.LockKey() }

func (r *renewal) Limit() time.Duration {
	if limit := r.lease.claimLimit(); limit > 0 {
		return limit
	}
	return cmp.Or(r.lease.watchedLease(), r.lease.lease) / 3
}

func (r *renewal) Handle(o driver.Result) (time.Time, bool) {
	if r.claims {
		return r.handleClaim(o)
	}
	if !r.refused && r.asked > 0 {
		defer r.lease.reportRenewal(r.lease.observedIn, o) // deferred: the answer takes effect before the hook runs
	}
	switch {
	case r.refused:
		r.lose(r.lease.readNotice(o))
		return time.Time{}, false
	case r.asked == 0 && isThere(o):
		r.failing = false
		return r.lease.checked(o.Sent)
	case o.Err != nil:
		r.report(o.Err)
		if r.rechecks {
			r.lease.recheck.Store(true)
		}
		return time.Now().Add(jitter(min(cmp.Or(r.asked, r.lease.lease)/10, maxRenewRetry))), true
	case o.Reply != int64(script.Ours):
		return r.isRefused()
	}
	r.failing = false
	if r.lease.extendValidity(o.Sent, r.asked) != nil {
		return time.Time{}, false
	}
	r.reportOld(o.Sent)
	return r.lease.renewAt(o.Sent), true
}

// isRefused ends a lease that is no longer ours, once the reason was read.
func (r *renewal) isRefused() (time.Time, bool) {
	if _, r.refused = r.lease.askNotice(); r.refused {
		r.lease.endWithin(r.lease.client.Limits.Notice)
		return time.Now(), true
	}
	r.lose(nil)
	return time.Time{}, false
}

// lose ends a lease that is no longer ours. Without a reason, the server has
// just lost it.
func (r *renewal) lose(why error) {
	if why == nil {
		why = errs.Vanished
	}
	r.lease.lose(why)
}

// reportRenewal counts an attempt, and notifies the observer of it, in a
// context.
func (l *Lease) reportRenewal(in func() context.Context, o driver.Result) {
	err := o.Err
	if err == nil && o.Reply != int64(script.Ours) {
		err = errs.Vanished
	}
	l.client.Counts.renewed(err)
	hook := l.client.Hooks.RenewDone
	if hook == nil {
		return
	}
	e := holds.End{Key: l.key, Kind: l.settings.KindName(), Op: "renew", Start: o.Sent, End: time.Now(), Err: err}
	if o.Sent.IsZero() {
		e.Start = e.End
	}
	hook(in(), e)
}

// observedIn returns a context with the values of the oldest level.
func (l *Lease) observedIn() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.levels.All) == 0 {
		return context.Background()
	}
	return context.WithoutCancel(l.levels.All[0].values)
}

func (r *renewal) report(err error) {
	if !r.failing && r.lease.client.Life.Err() == nil {
		r.failing = true
		r.lease.logFailure(err)
	}
}

// renewAt returns when to renew after a request that was sent at sent. That is
// a third of the watched lease later. It is earlier if the lease would be valid
// for less than two thirds of that length.
func (l *Lease) renewAt(sent time.Time) time.Time {
	watched := l.watchedLease()
	l.mu.Lock()
	defer l.mu.Unlock()
	at := sent.Add(jitter(watched / 3))
	if latest := l.validUntil.Add(-watched * 2 / 3); latest.Before(at) {
		return latest
	}
	return at
}

// jitter shortens d by up to a tenth, so that locks that were acquired together
// are not renewed together forever.
func jitter(d time.Duration) time.Duration {
	if d < 10 {
		return d
	}
	return d - rand.N(d/10)
}

// watchedLease returns the longest lease of the live watched levels, or 0 if
// there is none.
func (l *Lease) watchedLease() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watched
}

// watch and unwatch count the levels that want the longest lease. So a change
// of one level need not examine all others; mu must be held.
func (l *Lease) watch(length time.Duration) {
	switch {
	case length > l.watched:
		l.watched, l.watchers = length, 1
	case length == l.watched:
		l.watchers++
	}
}

func (l *Lease) unwatch(length time.Duration) {
	if length != l.watched {
		return
	}
	if l.watchers--; l.watchers > 0 {
		return
	}
	l.watched = 0
	for _, h := range l.levels.All {
		if h.watched && h.ends.Err() == nil {
			l.watch(h.settings.Lease)
		}
	}
}

// renewer returns the workers that renew the lease.
func (l *Lease) renewer() *background.Fleet {
	if l.confirm != nil {
		return l.client.replicator(*l.confirm)
	}
	return l.client.watchdog
}

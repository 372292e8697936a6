package lease

import (
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/script"
)

// The watchdog is a worker whose jobs are the leases that have a watched level. A lease is renewed a third of
// its length after the last sending; an attempt that fails is repeated soon, until belief ends; "not ours" is
// loss, as soon as it was asked whether somebody has ended the hold by force, and after noticeLimit without an answer to that.

// renewAhead is how much too early a lease may be renewed together with others: many locks then cost large batches, not
// many small ones.
const renewAhead = 10 * time.Millisecond

// maxRenewRetry is the longest pause after a renewal that failed.
const maxRenewRetry = 500 * time.Millisecond

// renewal keeps one lease alive. It belongs to the watchdog's goroutine.
type renewal struct {
	lease   *Lease
	asked   time.Duration // by the sending under way
	failing bool          // the last one got no answer, which was logged
	refused bool          // it asks why
}

// Next asks for the longest lease that a watched level wants; when none is left the renewal ends, and belief
// runs out as last set. A process that was paused for too long finds the loss here, and renews nothing.
func (r *renewal) Next(time.Time) (script.Call, bool) {
	if r.refused {
		return r.lease.askNotice()
	}
	if r.lease.check() != nil {
		return script.Call{}, false
	}
	r.asked = r.lease.watchedLease()
	if r.asked == 0 {
		return script.Call{}, false
	}
	return r.lease.protocol.Renew(r.asked), true
}

func (r *renewal) Limit() time.Duration { return r.lease.watchedLease() / 3 }

func (r *renewal) Handle(o driver.Result) (time.Time, bool) {
	if !r.refused {
		defer r.lease.tellRenewal(o) // what follows from the answer comes first
	}
	switch {
	case r.refused:
		r.lose(r.lease.readNotice(o))
		return time.Time{}, false
	case o.Err != nil:
		r.report(o.Err)
		return time.Now().Add(jitter(min(r.asked/10, maxRenewRetry))), true
	case o.Reply != int64(script.Ours):
		if _, r.refused = r.lease.askNotice(); r.refused {
			r.lease.endWithin(r.lease.client.reasonLimit)
			return time.Now(), true
		}
		r.lose(nil)
		return time.Time{}, false
	}
	r.failing = false
	if r.lease.extendValidity(o.Sent, r.asked) != nil {
		return time.Time{}, false
	}
	return r.lease.renewAt(o.Sent), true
}

// lose ends a lease that is not ours any more, for the reason that is known.
func (r *renewal) lose(why error) {
	if why == nil {
		why = errs.ErrLockLost
	}
	r.lease.lose(why)
}

// tellRenewal tells the observer of an attempt.
func (l *Lease) tellRenewal(o driver.Result) {
	hook, err := l.client.Hooks.RenewDone, o.Err
	if hook == nil {
		return
	}
	if err == nil && o.Reply != int64(script.Ours) {
		err = errs.ErrLockLost
	}
	hook(l.key, o.Sent, err)
}

func (r *renewal) report(err error) {
	if !r.failing && r.lease.client.Life.Err() == nil {
		r.failing = true
		r.lease.client.Logger.Warn("relock: renewal failed, trying again", "key", r.lease.key, "reason", err.Error())
	}
}

// renewAt is when to renew after a request sent at sent: a third of the watched lease later, and never when
// less than two thirds of it would be left of the belief.
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

// jitter takes up to a tenth off, so that locks taken together are not renewed together for ever.
func jitter(d time.Duration) time.Duration {
	if d < 10 {
		return d
	}
	return d - rand.N(d/10)
}

// watchedLease is the longest lease that a level which is still held wants to be kept alive; 0 when none does.
func (l *Lease) watchedLease() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watched
}

// watch and unwatch keep count of the levels that want the longest lease, so that no change of a level looks at all
// the others; mu is held.
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
		if h.watched && h.ends.Over() == nil {
			l.watch(h.settings.Lease)
		}
	}
}

// renewer is the worker that renews the lease.
func (l *Lease) renewer() *background.Worker {
	if l.confirm != nil {
		return l.client.replicator(*l.confirm)
	}
	return l.client.watchdog
}

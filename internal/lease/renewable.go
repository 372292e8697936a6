package lease

import (
	"cmp"
	"context"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/validity"
)

// A lease as its worker and package validity see it.
var _ validity.Renewable = (*Lease)(nil)

// Renew returns the request for a lease of this length.
func (l *Lease) Renew(length time.Duration) script.Call { return l.protocol.Renew(length) }

// LockKey returns the key of the lock in Redis.
func (l *Lease) LockKey() string { return l.protocol.LockKey() }

// Books returns the books of the client.
func (l *Lease) Books() *validity.Books { return l.client.Books }

// ObservedIn returns a context with the values of the oldest level.
func (l *Lease) ObservedIn() context.Context {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if len(l.levels.All) == 0 {
		return context.Background()
	}
	return context.WithoutCancel(l.levels.All[0].values)
}

// Next returns what the worker sends for the lease: the claim of a grant by
// message, then the renewals, or looks for the mark of a forced end. A lease
// that was refused asks for the reason.
func (l *Lease) Next(now time.Time) (script.Call, bool) {
	if l.task.stage >= asks {
		return refusal{l}.next()
	}
	l.task.stage = renews
	if claim, ok := (byMessage{l}).next(); ok {
		l.task.stage = claims
		return claim, true
	}
	if renewal, ok := l.Renewal.Next(now); ok {
		return renewal, true
	}
	l.task.stage = looks
	return marked{l}.next()
}

// Limit returns how long an answer may take.
func (l *Lease) Limit() time.Duration {
	return cmp.Or(byMessage{l}.limit(), l.Renewal.Limit())
}

// Handle takes the answer to what Next has returned.
func (l *Lease) Handle(o driver.Result) (at time.Time, again bool) {
	switch l.task.stage {
	case asks, asksMarked:
		return refusal{l}.handle(o)
	case claims:
		at, again = byMessage{l}.handle(o)
	case looks:
		at, again = marked{l}.handle(o)
	default:
		at, again = l.Renewal.Handle(o)
	}
	if again {
		return at, true
	}
	return marked{l}.lookAt(time.Now())
}

// Extended logs once that a hold without a maximum is old by now.
func (l *Lease) Extended(now time.Time) { warnIfOld(l, now) }

// Moved passes a change of the validity on to the group of the lease.
func (l *Lease) Moved() (follow func()) { return l.of.recompute() }

// NotOurs ends a lease that the server has refused with this code, and reports
// whether to ask for the reason first: the hold may have been ended by force.
// It ends after the limit for that, if no answer comes.
func (l *Lease) NotOurs(code any) (again bool) {
	r, forced := refusal{l}, code == int64(script.Forced)
	if _, ok := r.next(); ok {
		l.task.stage = asks
		if forced {
			l.task.stage = asksMarked
		}
		l.EndBy(time.Now().Add(l.client.Limits.Notice))
		return true
	}
	_ = r.lose(nil, forced)
	return false
}

// Ended ends the holds of a lease that was lost before its Unlock; Mu must be
// held. The key is released, so that others need not wait until it expires.
func (l *Lease) Ended(why error) (follow func()) {
	l.of.noteEnd(why)
	var seen []*holds.Report
	now := time.Now()
	for _, h := range l.levels.All {
		if h.ends.Err() == nil && h.report != nil {
			seen = append(seen, h.report)
		}
		h.end(now, why)
	}
	if l.levels.Live > 0 && why != errs.ErrClosed { //nolint:errorlint // our own sentinel
		l.client.Losses.Add(1)
	}
	l.levels.Live = 0
	doubts, claim := l.doubts(), l.claim
	return func() {
		// First, because after the release others may have the key.
		report := l.of.recompute()
		defer report()
		l.leave()
		claim.forget()
		for _, s := range seen {
			defer s.Done("hold", why)
		}
		retained{l}.end(why)
		defer l.of.lost(l, why)
		if why == errs.ErrClosed { //nolint:errorlint // our own sentinel
			return // the connections are being closed
		}
		// First, because a log handler may take long.
		job := releaser{l}.cleanup(doubts)
		job.Quiet = true // the loss is logged
		l.client.Retrier.Retry(job)
	}
}

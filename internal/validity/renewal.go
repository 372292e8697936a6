package validity

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// maxRenewRetry is the longest pause after a failed renewal.
const maxRenewRetry = 500 * time.Millisecond

// Renewal is a grant that is renewed: its validity, and its job in a worker. It
// is a part of what was granted, a [Renewable].
type Renewal struct {
	Validity
	grant Renewable
	job   background.Job

	next, prev *Renewal // at the same place; guarded by the mutex of the places

	// The order saves 8 bytes of each lock.
	watched  time.Duration // the longest lease that is wanted; guarded by Mu
	watchers int32         // how many want it; guarded by Mu
	due      int32         // index in the expiry timers, guarded by their mutex; -1 if not there
	recheck  atomic.Bool   // masters have changed: it has to ask whether it is there
	suspect  bool          // the server has refused it, the reason is being requested; guarded by Mu
	failing  bool          // the last attempt failed, which was logged; the worker's, as what follows
	rechecks bool          // the sending under way asks the new master whether the hold is there
	awaited  bool          // a call waits for it, which was logged; guarded by the mutex of the places
	asked    time.Duration // the lease that the sending under way requests
}

// Renewer builds the requests that renew a grant.
type Renewer interface {
	Renew(lease time.Duration) script.Call
	// LockKey returns the key in Redis to whose server the requests go.
	LockKey() string
}

// Renewable is a grant that has a [Renewal].
type Renewable interface {
	background.Task
	Subject
	Renewer
	described
	// ObservedIn returns the context in which a renewal is reported.
	ObservedIn() context.Context
	// Extended is called after an answer has extended the validity.
	Extended(sent time.Time)
	// NotOurs ends it, after the server has refused it with this code of a
	// script. It reports whether to send again, for the reason.
	NotOurs(code any) (again bool)
}

// Grant returns what the Renewal is a part of.
func (r *Renewal) Grant() Renewable { return r.grant }

// Next requests the longest lease that is wanted. If none is, the renewal ends,
// and the grant expires as last set, unless it has to ask whether it is there.
// A process that was paused for too long finds the loss here, and renews
// nothing.
func (r *Renewal) Next(time.Time) (script.Call, bool) {
	if r.Check() != nil {
		return script.Call{}, false
	}
	r.asked, r.rechecks = r.watchedLease(), r.recheck.Swap(false)
	switch {
	case r.asked > 0:
		return r.grant.Renew(r.asked), true
	case r.rechecks:
		return r.grant.Renew(CheckLength), true
	}
	return script.Call{}, false
}

// Key returns the key of the lock.
func (r *Renewal) Key() string { return r.grant.LockKey() }

// Limit returns how long an answer may take.
func (r *Renewal) Limit() time.Duration { return cmp.Or(r.watchedLease(), r.Settings.Lease) / 3 }

// Handle takes the answer to a renewal.
func (r *Renewal) Handle(o driver.Result) (time.Time, bool) {
	if r.asked > 0 {
		defer r.ReportRenewal(r.grant.ObservedIn, o) // deferred: the answer takes effect before the hook runs
	}
	switch {
	case r.asked == 0 && IsThere(o):
		r.failing = false
		return r.Checked(o.Sent)
	case o.Err != nil:
		if r.rechecks {
			r.recheck.Store(true)
		}
		return r.Retry(o.Err, min(cmp.Or(r.asked, r.Settings.Lease)/10, maxRenewRetry))
	case o.Reply != int64(script.OK):
		return r.Refused(o.Reply)
	}
	if r.Renewed(o.Sent, r.asked) != nil {
		return time.Time{}, false
	}
	r.grant.Extended(o.Sent)
	return r.renewAt(o.Sent), true
}

// Refused ends the grant, after the server has refused a request of the worker
// with this code. It returns when to ask for the reason, and whether to.
func (r *Renewal) Refused(code any) (at time.Time, again bool) {
	return time.Now(), r.grant.NotOurs(code)
}

// ReportRenewal counts an attempt, and notifies the observer of it, in a
// context.
func (r *Renewal) ReportRenewal(in func() context.Context, o driver.Result) {
	err := o.Err
	if err == nil && o.Reply != int64(script.OK) {
		err = errs.Vanished
	}
	r.of.Books().report(in, holds.End{
		Key: r.Name, Kind: r.Settings.KindName(), Op: "renew", Start: o.Sent, Err: err,
	})
}

// Renewed takes an answer that has granted this length to a request of the
// worker.
func (r *Renewal) Renewed(sent time.Time, length time.Duration) error {
	r.failing = false
	return r.ExtendValidity(sent, length)
}

// Retry returns when to send again after a request of the worker has failed. It
// logs the first failure in a row.
func (r *Renewal) Retry(err error, pause time.Duration) (time.Time, bool) {
	if !r.failing && r.of.Books().client.Life.Err() == nil {
		r.failing = true
		r.of.Books().warnings.failed(err, r.grant)
	}
	return time.Now().Add(Jitter(pause)), true
}

// EndBy limits the validity of a grant that the server has refused. It is not
// passed on any more.
func (r *Renewal) EndBy(until time.Time) {
	r.Mu.Lock()
	r.suspect = true
	if r.over == nil && until.Before(r.validUntil) {
		r.validUntil = until
		r.of.Books().expiry.again(r, until)
	}
	r.Mu.Unlock()
	r.of.Moved()()
}

// Expired returns why the grant is no longer valid by the clock; Mu must be
// held.
func (r *Renewal) Expired() error {
	switch {
	case r.suspect:
		return errs.Vanished
	case r.watched == 0:
		return errs.LeaseOver
	}
	return errs.NotRenewed(r.of.Books().At(r.renewed), nil)
}

// A grant of another package has what follows from its Renewal.
type otherGrant struct {
	Renewal
	Renewer
	Ender
	Member
}

var _ Renewable = (*otherGrant)(nil)

// Moved does nothing.
func (r *Renewal) Moved() (follow func()) { return Nothing }

// ObservedIn returns a context without values.
func (r *Renewal) ObservedIn() context.Context { return context.Background() }

// Extended does nothing.
func (r *Renewal) Extended(time.Time) {}

// NotOurs ends the grant, and reports whether to send again, which is false.
func (r *Renewal) NotOurs(any) (again bool) {
	r.Lose(errs.Vanished)
	return false
}

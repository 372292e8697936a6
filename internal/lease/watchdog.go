package lease

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// The watchdog is a worker whose jobs are the grants that are renewed. A grant
// is renewed a third of its lease after the last sending. A failed attempt is
// repeated soon, as long as the grant is valid. The answer "not ours" means
// loss.

// renewAhead is how much too early a grant may be renewed together with others.
// Many locks then cost a few large batches instead of many small ones.
const renewAhead = 10 * time.Millisecond

// maxRenewRetry is the longest pause after a failed renewal.
const maxRenewRetry = 500 * time.Millisecond

// Renewal is a grant that is renewed: its validity, and its job in a worker. It
// is a part of what was granted, a [Renewable].
type Renewal struct {
	validity
	grant Renewable
	job   background.Job

	next, prev *Renewal // at the same place; guarded by Manager.mu

	// The order saves 8 bytes of each lock.
	watched  time.Duration // the longest lease that is wanted; guarded by mu
	watchers int32         // how many want it; guarded by mu
	due      int32         // index in the expiry timers, guarded by their mutex; -1 if not there
	recheck  atomic.Bool   // masters have changed: it has to ask whether it is there
	suspect  bool          // the server has refused it, the reason is being requested; guarded by mu
	failing  bool          // the last attempt failed, which was logged; the worker's, as what follows
	rechecks bool          // the sending under way asks the new master whether the hold is there
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
	subject
	Renewer
	single() *Lease // nil if it is none
	// about returns what a log line says of it. The attributes in more follow.
	about(more ...any) []any
	// observedIn returns the context in which a renewal is reported.
	observedIn() context.Context
	// extended is called after an answer has extended the validity.
	extended(sent time.Time)
	// notOurs ends it, after the server has refused it. It reports whether to
	// send again, for the reason.
	notOurs() (again bool)
}

// Next requests the longest lease that is wanted. If none is, the renewal ends,
// and the grant expires as last set, unless it has to ask whether it is there.
// A process that was paused for too long finds the loss here, and renews
// nothing.
func (r *Renewal) Next(time.Time) (script.Call, bool) {
	if r.check() != nil {
		return script.Call{}, false
	}
	r.asked, r.rechecks = r.watchedLease(), r.recheck.Swap(false)
	switch {
	case r.asked > 0:
		return r.grant.Renew(r.asked), true
	case r.rechecks:
		return r.grant.Renew(checkLength), true
	}
	return script.Call{}, false
}

// Key returns the key of the lock.
func (r *Renewal) Key() string { return r.grant.LockKey() }

// Limit returns how long an answer may take.
func (r *Renewal) Limit() time.Duration { return cmp.Or(r.watchedLease(), r.settings.Lease) / 3 }

// Handle takes the answer to a renewal.
func (r *Renewal) Handle(o driver.Result) (time.Time, bool) {
	if r.asked > 0 {
		defer r.reportRenewal(r.grant.observedIn, o) // deferred: the answer takes effect before the hook runs
	}
	switch {
	case r.asked == 0 && isThere(o):
		r.failing = false
		return r.checked(o.Sent)
	case o.Err != nil:
		r.failed(o.Err)
		if r.rechecks {
			r.recheck.Store(true)
		}
		return time.Now().Add(jitter(min(cmp.Or(r.asked, r.settings.Lease)/10, maxRenewRetry))), true
	case o.Reply != int64(script.Ours):
		return time.Now(), r.grant.notOurs()
	}
	r.failing = false
	if r.extendValidity(o.Sent, r.asked) != nil {
		return time.Time{}, false
	}
	r.grant.extended(o.Sent)
	return r.renewAt(o.Sent), true
}

// reportRenewal counts an attempt, and notifies the observer of it, in a
// context.
func (r *Renewal) reportRenewal(in func() context.Context, o driver.Result) {
	err := o.Err
	if err == nil && o.Reply != int64(script.Ours) {
		err = errs.Vanished
	}
	r.client.Counts.renewed(err)
	hook := r.client.Hooks.RenewDone
	if hook == nil {
		return
	}
	e := holds.End{Key: r.key, Kind: r.settings.KindName(), Op: "renew", Start: o.Sent, End: time.Now(), Err: err}
	if o.Sent.IsZero() {
		e.Start = e.End
	}
	hook(in(), e)
}

// failed logs the first of the attempts in a row that fail.
func (r *Renewal) failed(err error) {
	if !r.failing && r.client.Life.Err() == nil {
		r.failing = true
		r.client.logFailure(err, r.grant)
	}
}

// renewAt returns when to renew after a request that was sent at sent. That is
// a third of the watched lease later. It is earlier if the grant would be valid
// for less than two thirds of that length.
func (r *Renewal) renewAt(sent time.Time) time.Time {
	watched := r.watchedLease()
	r.mu.Lock()
	defer r.mu.Unlock()
	at := sent.Add(jitter(watched / 3))
	if latest := r.validUntil.Add(-watched * 2 / 3); latest.Before(at) {
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

// watchedLease returns the longest lease that is wanted, or 0 if none is.
func (r *Renewal) watchedLease() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watched
}

// watch counts one more that wants a lease to be renewed; mu must be held.
func (r *Renewal) watch(length time.Duration) {
	switch {
	case length > r.watched:
		r.watched, r.watchers = length, 1
	case length == r.watched:
		r.watchers++
	}
}

// endWithin limits the validity of a refused grant to d from now. It is not
// passed on any more.
func (r *Renewal) endWithin(d time.Duration) {
	r.mu.Lock()
	r.suspect = true
	if until := time.Now().Add(d); r.over == nil && until.Before(r.validUntil) {
		r.validUntil = until
		r.client.expiry.again(r)
	}
	r.mu.Unlock()
	r.of.moved()()
}

// expired returns why the grant is no longer valid by the clock; mu must be
// held.
func (r *Renewal) expired() error {
	switch {
	case r.suspect:
		return errs.Vanished
	case r.watched == 0:
		return errs.LeaseOver
	}
	return errs.NotRenewed(r.client.at(r.renewed), nil)
}

// A grant of another package has what follows from its Renewal.
type otherGrant struct {
	Renewal
	Renewer
	ender
}

var _ Renewable = (*otherGrant)(nil)

func (r *Renewal) moved() (follow func())      { return nothing }
func (r *Renewal) single() *Lease              { return nil }
func (r *Renewal) observedIn() context.Context { return context.Background() }
func (r *Renewal) extended(time.Time)          {}

func (r *Renewal) notOurs() (again bool) {
	r.lose(errs.Vanished)
	return false
}

// renewer returns the workers that renew the grant.
func (r *Renewal) renewer() *background.Fleet {
	if r.settings.Replicas > 0 {
		return r.client.replicator(*r.settings.Ack())
	}
	return r.client.watchdog
}

package validity

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// The life of a grant that is no lease, such as a delivery of a task: it is
// renewed from Begin until it is lost, or until End.

// Begin enters a grant in the books, and has it renewed. The request
// for it was sent at sent. It fails if the client was closed, or if the grant
// has already ended.
func (r *Renewal) Begin(of Renewable, key string, sent time.Time, s *lockspec.Spec) error {
	r.SetUp(of, key, sent, s)
	r.watched = s.Lease
	now, err := r.Start(sent)
	if err != nil {
		return err
	}
	r.Schedule(sent)
	r.RecheckNow()
	return r.CheckAt(now)
}

// SetUp sets what never changes, and the first validity.
func (r *Renewal) SetUp(of Renewable, key string, sent time.Time, s *lockspec.Spec) {
	r.Init(of, key, sent, s)
	r.grant, r.due = of, -1
	r.job.Init(of)
}

// Start enters a grant in the books, and sets its expiry timer. It
// fails if the client was closed. A grant that was requested before a suspend
// is lost; Start returns the time of that check.
func (r *Renewal) Start(requested time.Time) (now time.Time, err error) {
	if err := r.of.Books().adopt(r); err != nil {
		return now, err
	}
	r.Mu.Lock()
	if r.over == nil {
		r.of.Books().expiry.watch(r, r.validUntil)
	}
	r.Mu.Unlock()
	now = time.Now()
	if r.of.Books().suspendedSince(requested, now) {
		r.Lose(errs.Suspended)
	}
	if r.of.Books().switches.since(requested) {
		r.recheck.Store(true)
	}
	return now, nil
}

// Err returns why the grant has ended, or nil. It decides by the clock, not by
// whether a timer has fired.
func (r *Renewal) Err() error {
	now := time.Now()
	r.of.Books().CheckSuspended(now)
	return r.CheckAt(now)
}

// timer returns the index of the grant in the expiry timers.
func (r *Renewal) timer() *int32 { return &r.due }

// expire is called by the expiry timers.
func (r *Renewal) expire() followUps {
	if follow := r.markExpired(); follow != nil {
		return r.andMoved(follow)
	}
	return nil
}

// markExpired marks the grant lost and returns the follow-up work. If the grant
// has already ended or was extended meanwhile, it returns nil.
func (r *Renewal) markExpired() (follow func()) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	switch {
	case r.over != nil:
		return nil
	case time.Until(r.validUntil) > 0:
		r.of.Books().expiry.watch(r, r.validUntil)
		return nil
	}
	return r.LoseLocked(r.of.Expired())
}

// StopRenewing lets the grant end by itself, unless End comes before.
func (r *Renewal) StopRenewing() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.watched = 0
}

// End ends the grant. It returns why the grant had ended before, or nil.
func (r *Renewal) End(why error) (earlier error) {
	_ = r.Err() // the clock decides, not whether a timer has fired
	r.Mu.Lock()
	earlier = r.over
	follow := r.LoseLocked(why)
	r.Mu.Unlock()
	follow()
	return earlier
}

// Leave takes a grant that has ended from its worker, the expiry timers and the
// books. No renewal is sent after that.
func (r *Renewal) Leave() {
	r.renewer().Remove(&r.job)
	r.of.Books().expiry.forget(r)
	r.of.Books().unlink(r)
}

// Judge reads the answer to a last release: it reports whether the hold was
// lost before. If first is false, an earlier copy of the release may have done
// the work. To find nothing is then success as long as the grant cannot have
// expired. After that nobody knows.
func (r *Renewal) Judge(o driver.Result, first bool) (lost bool, err error) {
	// Foreign too: the lock may be reserved for the next waiter, and a
	// reservation is of another type.
	nothing := o.Reply == int64(script.NotHeld) || o.Reply == int64(script.Conflict)
	if script.IsOurs(o.Reply) || first || !nothing {
		return !script.IsOurs(o.Reply), nil
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if time.Until(r.validUntil) > 0 {
		return false, nil
	}
	return false, errs.Join(errs.ErrUnconfirmed, errs.ErrAnswerLost)
}

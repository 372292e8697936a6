package lease

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// check marks the lease lost if it is no longer valid by the clock, ahead of
// the timer. It returns why the lease has ended, or nil.
func (l *Lease) check() error { return l.checkAt(time.Now()) }

func (l *Lease) checkAt(now time.Time) error {
	l.mu.Lock()
	if over := l.over; over != nil || now.Before(l.validUntil) {
		l.mu.Unlock()
		return over
	}
	why := l.expired()
	follow := l.loseLocked(why)
	l.mu.Unlock()
	follow()
	return why
}

// expired returns why the lease is no longer valid by the clock; mu must be
// held.
func (l *Lease) expired() error {
	switch {
	case l.group != nil:
		return l.group.expired()
	case l.suspect:
		return errs.Vanished
	case l.watched == 0:
		return errs.LeaseOver
	}
	return errs.NotRenewed(l.client.at(l.renewed), nil)
}

// overdue returns why the lease is no longer valid by the clock, or nil if it
// is valid or has already been lost.
func (l *Lease) overdue(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil || now.Before(l.validUntil) {
		return nil
	}
	return l.expired()
}

// at returns the time that was counted from the client's start.
func (m *Manager) at(d time.Duration) time.Time { return m.expiry.start.Add(d) }

// keptUntil returns the time until which the key stays, even if it is released;
// mu must be held.
func (l *Lease) keptUntil() time.Time { return l.client.at(l.keep) }

// extendValidity extends the validity, and never shortens it. A request that
// was sent at sent has set the expiry to length or more. An answer that comes
// after the end of the validity revives nothing.
func (l *Lease) extendValidity(sent time.Time, length time.Duration) error {
	err := l.move(sent, length)
	if l.memberOf != nil {
		l.memberOf.revalidate()
	}
	return err
}

func (l *Lease) move(sent time.Time, length time.Duration) error {
	if err := l.check(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := sent.Add(length - lockspec.Drift(length)); l.over == nil && until.After(l.validUntil) {
		l.validUntil = until
	}
	l.renewed = max(l.renewed, sent.Sub(l.client.expiry.start))
	return l.over
}

// endWithin limits the validity of a refused lease to d from now. The lease is
// not passed on any more.
func (l *Lease) endWithin(d time.Duration) {
	l.mu.Lock()
	l.suspect = true
	if until := time.Now().Add(d); l.over == nil && until.Before(l.validUntil) {
		l.validUntil = until
		l.client.expiry.again(l)
	}
	l.mu.Unlock()
	if l.memberOf != nil {
		l.memberOf.revalidate()
	}
}

// ends returns the time until which the lease is valid, or zero if it has
// ended.
func (l *Lease) ends() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return time.Time{}
	}
	return l.validUntil
}

// expire is called by the expiry timer. It marks the lease lost and returns the
// follow-up work. If the lease has already ended or was extended meanwhile, it
// returns nil.
func (l *Lease) expire() (follow func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over != nil:
		return nil
	case time.Until(l.validUntil) > 0:
		l.client.expiry.watch(l)
		return nil
	}
	return l.loseLocked(l.expired())
}

package lease

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// Drift is how much sooner than the lease belief ends: clocks that do not run alike, and timers that fire
// late.
func Drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// check declares the loss when the clock says so, ahead of the timer. It returns why the lease is over, or
// nil.
func (l *Lease) check() error { return l.checkAt(time.Now()) }

func (l *Lease) checkAt(now time.Time) error {
	l.mu.Lock()
	over, late := l.over, !now.Before(l.validUntil)
	l.mu.Unlock()
	if over == nil && late {
		l.lose(errs.ErrLockLost)
		over = errs.ErrLockLost
	}
	return over
}

// extendValidity moves the end of the belief, never back: a request sent at sent set the expiry to length or more.
// An answer that comes after the belief has ended revives nothing.
func (l *Lease) extendValidity(sent time.Time, length time.Duration) error {
	err := l.move(sent, length)
	if l.memberOf != nil {
		l.memberOf.reckon()
	}
	return err
}

func (l *Lease) move(sent time.Time, length time.Duration) error {
	if err := l.check(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := sent.Add(length - Drift(length)); l.over == nil && until.After(l.validUntil) {
		l.validUntil = until
	}
	return l.over
}

// endWithin has the belief end in that time at the latest, of a lease that the server has refused: nobody gets it any more.
func (l *Lease) endWithin(d time.Duration) {
	l.mu.Lock()
	l.suspect = true
	if until := time.Now().Add(d); l.over == nil && until.Before(l.validUntil) {
		l.validUntil = until
		l.client.expiry.again(l)
	}
	l.mu.Unlock()
	if l.memberOf != nil {
		l.memberOf.reckon()
	}
}

// ends is until when the lease is believed in; zero when it is over.
func (l *Lease) ends() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return time.Time{}
	}
	return l.validUntil
}

// expire runs when the timer fires: the belief is over, unless it was lengthened meanwhile. It returns what is to be done
// about the loss, or nil.
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
	return l.loseLocked(errs.ErrLockLost)
}

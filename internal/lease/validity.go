package lease

import (
	"sync"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// validity is how long a grant is valid by the clock, and why it has ended. It
// sends nothing.
//
// The grant is valid until validUntil. That is the sending of the request that
// set the expiry, plus the lease, less the drift. The key cannot expire before
// then.
type validity struct {
	client   *Manager
	of       subject
	key      string         // the name given by the user
	settings *lockspec.Spec // of the first level
	since    time.Duration  // when Redis granted it, counted from the client's start

	mu         sync.Mutex // guards what follows and its subject; taken before Manager.mu, never after
	validUntil time.Time
	over       error         // why the grant ended; nil while it is live
	renewed    time.Duration // when its last answered request was sent, counted from the client's start
}

// subject is what a validity is of.
type subject interface {
	// expired returns why the grant is no longer valid by the clock; mu is
	// held.
	expired() error
	ender
	// moved passes on that the validity has changed. It returns what is to be
	// done about that; mu is not held.
	moved() (follow func())
}

type ender interface {
	// Ended ends what depends here on the grant, which has ended; mu is held.
	// It returns what is to be done without mu.
	Ended(why error) (follow func())
}

// nothing is what is to be done if nothing is.
func nothing() {}

// init sets the validity of a grant, which counts from the sending of the
// request.
func (v *validity) init(m *Manager, of subject, key string, sent time.Time, s *lockspec.Spec) {
	v.client, v.of, v.key, v.settings = m, of, key, s
	v.since = sent.Sub(m.expiry.start)
	v.renewed = v.since
	v.validUntil = sent.Add(s.Lease - lockspec.Drift(s.Lease))
}

func (v *validity) valid() *validity { return v }

// granted returns when Redis granted it.
func (v *validity) granted() time.Time { return v.client.at(v.since) }

// check marks the grant lost if it is no longer valid by the clock, ahead of
// the timer. It returns why the grant has ended, or nil.
func (v *validity) check() error { return v.checkAt(time.Now()) }

func (v *validity) checkAt(now time.Time) error {
	v.mu.Lock()
	if over := v.over; over != nil || now.Before(v.validUntil) {
		v.mu.Unlock()
		return over
	}
	why := v.of.expired()
	follow := v.loseLocked(why)
	v.mu.Unlock()
	follow()
	return why
}

// overdue returns why the grant is no longer valid by the clock, or nil if it
// is valid or has already been lost.
func (v *validity) overdue(now time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over != nil || now.Before(v.validUntil) {
		return nil
	}
	return v.of.expired()
}

// extendValidity extends the validity, and never shortens it. A request that
// was sent at sent has set the expiry to length or more. An answer that comes
// after the end of the validity revives nothing.
func (v *validity) extendValidity(sent time.Time, length time.Duration) error {
	err := v.move(sent, length)
	v.of.moved()()
	return err
}

func (v *validity) move(sent time.Time, length time.Duration) error {
	if err := v.check(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if until := sent.Add(length - lockspec.Drift(length)); v.over == nil && until.After(v.validUntil) {
		v.validUntil = until
	}
	v.renewed = max(v.renewed, sent.Sub(v.client.expiry.start))
	return v.over
}

// ValidUntil returns the time until which the grant is valid, or zero if it has
// ended.
func (v *validity) ValidUntil() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over != nil {
		return time.Time{}
	}
	return v.validUntil
}

// lose ends the grant before its holder does. What is lost stays lost.
func (v *validity) lose(why error) { v.markLost(why)() }

// markLost is lose, but returns the follow-up work.
func (v *validity) markLost(why error) (follow func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.loseLocked(why)
}

// loseLocked is markLost with mu held. follow must be called without it.
func (v *validity) loseLocked(why error) (follow func()) {
	if v.over != nil {
		return nothing
	}
	v.over = why
	return v.of.Ended(why)
}

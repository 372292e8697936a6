package validity

import (
	"sync"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// Validity is how long a grant is valid by the clock, and why it has ended. It
// sends nothing.
//
// The grant is valid until validUntil. That is the sending of the request that
// set the expiry, plus the lease, less the drift. The key cannot expire before
// then.
type Validity struct {
	of       Subject
	Name     string         // the key as the user gave it
	Settings *lockspec.Spec // of the first level
	Since    time.Duration  // when Redis granted it, counted from the client's start

	Mu         sync.Mutex // guards what follows and its subject; taken before that of the places, never after
	validUntil time.Time
	over       error         // why the grant ended; nil while it is live
	renewed    time.Duration // when its last answered request was sent, counted from the client's start
}

// Subject is what a validity is of.
type Subject interface {
	// Expired returns why the grant is no longer valid by the clock; Mu is
	// held.
	Expired() error
	Ender
	Member
	// Moved passes on that the validity has changed. It returns what is to be
	// done about that; Mu is not held.
	Moved() (follow func())
}

// Member is a grant of a client.
type Member interface {
	// Books returns the books of its client. A field of Validity would cost
	// each lock 64 bytes, by the size of its object.
	Books() *Books
}

// Ender ends what depends on a grant.
type Ender interface {
	// Ended ends what depends here on the grant, which has ended; Mu is held.
	// It returns what is to be done without Mu.
	Ended(why error) (follow func())
}

// Nothing is what is to be done if there is nothing to do.
func Nothing() {}

// Init sets the validity of a grant, which counts from the sending of the
// request.
func (v *Validity) Init(of Subject, key string, sent time.Time, s *lockspec.Spec) {
	v.of, v.Name, v.Settings = of, key, s
	v.Since = of.Books().Count(sent)
	v.renewed = v.Since
	v.validUntil = sent.Add(s.Lease - lockspec.Drift(s.Lease))
}

// Valid returns v, of a struct that embeds it.
func (v *Validity) Valid() *Validity { return v }

// About returns what a log line says of the grant: its lock, the kind and the
// label of that. The attributes in more follow.
func (v *Validity) About(more ...any) []any {
	all := append(make([]any, 0, 8+len(more)), "key", v.Name, "kind", v.Settings.KindName())
	if label := v.Settings.LabelText(); label != "" {
		all = append(all, "label", label)
	}
	return append(all, more...)
}

// Granted returns when Redis granted it.
func (v *Validity) Granted() time.Time { return v.of.Books().At(v.Since) }

// Check marks the grant lost if it is no longer valid by the clock, ahead of
// the timer. It returns why the grant has ended, or nil.
func (v *Validity) Check() error { return v.CheckAt(time.Now()) }

// CheckAt is Check at now, which the caller has just read.
func (v *Validity) CheckAt(now time.Time) error {
	v.Mu.Lock()
	if over := v.over; over != nil || now.Before(v.validUntil) {
		v.Mu.Unlock()
		return over
	}
	why := v.of.Expired()
	follow := v.LoseLocked(why)
	v.Mu.Unlock()
	follow()
	return why
}

// Overdue returns why the grant is no longer valid by the clock, or nil if it
// is valid or has already been lost.
func (v *Validity) Overdue(now time.Time) error {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	if v.over != nil || now.Before(v.validUntil) {
		return nil
	}
	return v.of.Expired()
}

// ExtendValidity extends the validity, and never shortens it. A request that
// was sent at sent has set the expiry to length or more. An answer that comes
// after the end of the validity revives nothing.
func (v *Validity) ExtendValidity(sent time.Time, length time.Duration) error {
	err := v.move(sent, length)
	v.of.Moved()()
	return err
}

func (v *Validity) move(sent time.Time, length time.Duration) error {
	if err := v.Check(); err != nil {
		return err
	}
	v.Mu.Lock()
	defer v.Mu.Unlock()
	if until := sent.Add(length - lockspec.Drift(length)); v.over == nil && until.After(v.validUntil) {
		v.validUntil = until
	}
	v.renewed = max(v.renewed, v.of.Books().Count(sent))
	return v.over
}

// ValidUntil returns the time until which the grant is valid, or zero if it has
// ended.
func (v *Validity) ValidUntil() time.Time {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	if v.over != nil {
		return time.Time{}
	}
	return v.validUntil
}

// Lose ends the grant before its holder does. What is lost stays lost.
func (v *Validity) Lose(why error) { v.MarkLost(why)() }

// MarkLost is Lose, but returns the follow-up work.
func (v *Validity) MarkLost(why error) (follow func()) {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	return v.LoseLocked(why)
}

// LoseLocked is MarkLost with Mu held. follow must be called without it.
func (v *Validity) LoseLocked(why error) (follow func()) {
	if v.over != nil {
		return Nothing
	}
	v.over = why
	return v.of.Ended(why)
}

// andMoved returns the work that follows the loss of the grant, and what
// follows from that for others; Mu is not held. It calls no code of the user.
func (v *Validity) andMoved(follow func()) followUps { return followUps{follow, v.of.Moved()} }

// Over returns why the grant has ended, or nil; Mu must be held.
func (v *Validity) Over() error { return v.over }

// Finish ends the grant for the reason why, without more: its holder has ended
// what depends on it; Mu must be held.
func (v *Validity) Finish(why error) { v.over = why }

// Until returns the time until which the grant is valid unless it has ended; Mu
// must be held.
func (v *Validity) Until() time.Time { return v.validUntil }

// SetUntil sets the time until which the grant is valid, of one that is not
// timed yet, or has no timer; Mu must be held.
func (v *Validity) SetUntil(until time.Time) { v.validUntil = until }

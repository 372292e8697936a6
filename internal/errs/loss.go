package errs

import (
	"errors"
	"fmt"
	"time"
)

// loss is why a hold ended before its Unlock. All losses read
// "lock lost (why)".
type loss struct {
	why  string
	kind error // a reason that it matches beside ErrLockLost, or nil
}

func (l *loss) Error() string { return ErrLockLost.Error() + " (" + l.why + ")" }

func (l *loss) Unwrap() []error {
	if l.kind == nil {
		return []error{ErrLockLost}
	}
	return []error{ErrLockLost, l.kind}
}

// The losses that need no more detail.
var (
	// LeaseOver is the loss of a lease that is not renewed.
	LeaseOver = Lost("lease over")
	// Vanished is the loss of a hold that the server no longer has.
	Vanished = Lost("the server no longer has it")
	// Suspended is the loss of a hold whose machine was suspended.
	Suspended = Lost("machine was suspended")
)

// Covers reports whether err is already the error of a lost hold, and matches
// all reasons of that loss.
func Covers(err, loss error) bool {
	for _, reason := range []error{ErrLockLost, ErrClosed, ErrMaxHold, ErrForced} {
		if errors.Is(loss, reason) && !errors.Is(err, reason) {
			return false
		}
	}
	return true
}

// Lost returns a loss for this reason.
func Lost(why string) error { return &loss{why: why} }

// NotRenewed returns the loss of a hold that was last renewed at since. It
// matches why, the error of the last attempt after that, which may be nil.
func NotRenewed(since time.Time, why error) error {
	text := "not renewed since " + Ago(since)
	if why != nil {
		text += ": " + why.Error()
	}
	return &loss{text, why}
}

// Forced returns the loss of a hold that was ended by force.
func Forced(reason string) error { return &loss{fmt.Sprintf("forced: %q", reason), ErrForced} }

// MaxHold returns the loss of a hold that reached its maximum hold.
func MaxHold(d time.Duration) error { return &loss{fmt.Sprintf("maximum hold of %v", d), ErrMaxHold} }

// Ago returns a moment that has passed, as Clock does. It counts back from now:
// the wall clock may have been set since then.
func Ago(then time.Time) string { return Clock(time.Now().Add(-time.Since(then))) }

// Clock returns a time in the form of package slog, so that a text can be
// compared with a log.
func Clock(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z07:00") }

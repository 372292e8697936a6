package errs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The reasons, each with one meaning.
var (
	ErrLockAcquiredByOthers = errors.New("lock is held by others")
	ErrNotHeld              = errors.New("not held")
	ErrLockLost             = errors.New("lock lost")
	ErrInvalid              = errors.New("invalid")
	ErrClosed               = errors.New("client closed")
	ErrQuorum               = errors.New("no quorum")
	ErrKeyConflict          = errors.New("key is used by something else")
	ErrUpgrade              = errors.New("read lock has other readers")
	ErrQueueFull            = errors.New("wait queue is full")
	ErrReplicas             = errors.New("too few replicas")
	ErrMaxHold              = errors.New("maximum hold time reached")
	ErrForced               = errors.New("lock was forced open")
	ErrDenied               = errors.New("permission denied by the server")
	ErrUnconfirmed          = errors.New("not confirmed")
)

// ErrDetached is the end of a hold that goes on in another process.
var ErrDetached = fmt.Errorf("%w: detached", ErrNotHeld)

// Refused is the error of a call that makes one attempt, and found the lock
// held by others. OneAttempt adds the same to a longer reason.
var Refused = OneAttempt(ErrLockAcquiredByOthers)

// OneAttempt adds to a reason that the call makes one attempt.
func OneAttempt(err error) error { return fmt.Errorf("%w (one attempt)", err) }

// Kept adds to a reason the time until which a minimum hold keeps the lock.
func Kept(err error, until time.Time) error {
	return fmt.Errorf("%w: minimum hold until %s", err, Clock(until))
}

// OfKey adds to a reason the key that it is about, in front of what was found.
func OfKey(err, reason error, key string) error {
	return fmt.Errorf("%w: key %q%s", reason, key, strings.TrimPrefix(err.Error(), reason.Error()))
}

// ErrAnswerLost is why a release is not confirmed whose first answer was lost.
var ErrAnswerLost = errors.New("an answer was lost, and the lease has ended since")

// HeldAs adds to a reason as which owner the client of the call has the lock.
func HeldAs(err error, owner string) error {
	return fmt.Errorf("%w (this client holds it as %q; see ContextWithOwner)", err, owner)
}

// HeldSince adds to a reason since when the client of the call has the lock,
// and what a call below that hold needs.
func HeldSince(err error, since time.Time, need string) error {
	return fmt.Errorf("%w (this client has held it since %s; nested calls need %s)", err, Ago(since), need)
}

// ContextOfHold is what a call below a hold needs, unless only a ReentrantLock
// nests.
const ContextOfHold = "the context of that hold"

// Join returns an error that matches two reasons and reads "a: b".
func Join(a, b error) error { return fmt.Errorf("%w: %w", a, b) }

// WithCauses returns an error that matches the reason and all its causes.
func WithCauses(reason error, causes []error) error {
	args := []any{reason}
	for _, err := range causes {
		args = append(args, err)
	}
	return fmt.Errorf("%w"+strings.Repeat("; %w", len(causes)), args...)
}

// EndOf returns the error of a call whose context has ended. It matches
// ctx.Err(), its cause, and the last reason seen.
func EndOf(ctx context.Context, last error) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		err = Join(err, cause)
	}
	if last != nil && !errors.Is(err, last) {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// IsLoss reports whether a hold ended before its time.
func IsLoss(err error) bool { return errors.Is(err, ErrLockLost) || errors.Is(err, ErrClosed) }

// NotHeld returns the error of an Unlock whose hold has already ended for this
// reason. It also matches ErrNotHeld, which the text does not repeat.
func NotHeld(why error) error {
	if errors.Is(why, ErrClosed) || why == ErrNotHeld { //nolint:errorlint // our own sentinel
		return why
	}
	return gone{why}
}

type gone struct{ why error }

func (g gone) Error() string   { return g.why.Error() }
func (g gone) Unwrap() []error { return []error{g.why, ErrNotHeld} }

// ForLevel returns why no level can be added to a hold that has ended for this
// reason. The hold is not yet unlocked to the last level.
func ForLevel(over error) error {
	if errors.Is(over, ErrNotHeld) {
		return ErrLockLost // the outer level reached its maximum hold, the others are unlocked
	}
	return over
}

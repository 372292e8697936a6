package acquire

import (
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// explain is called when a call ends: it waits no more. explain adds to its
// final error that its own client has the lock, or that it made one attempt.
func (w *Wait) explain(err error) error {
	err = w.explainOwn(err)
	w.endOutage(err)
	w.end()
	if w.Block || !errors.Is(err, errs.ErrLockAcquiredByOthers) ||
		lockspec.ContextEnd(err) != nil || errors.Is(err, errs.ErrQuorum) {
		return err
	}
	return refusedOnce(err, w.Settings)
}

// Refusal returns the answer of a script that acquires a lock as an error, or
// nil for a grant. ms is the part of the answer that says how long a minimum
// hold keeps the lock, see [script.KeptUntil].
func (w *Wait) Refusal(code int64, answer any, ms int) error {
	err := ReasonOf(code, answer, w.Settings)
	if err == nil {
		return nil
	}
	return Kept(err, script.KeptUntil(answer, ms))
}

// Kept adds to the error of a refused call until when a minimum hold keeps the
// lock, unless that is over.
func Kept(err error, until time.Time) error {
	if errors.Is(err, errs.ErrLockAcquiredByOthers) && until.After(time.Now()) {
		return errs.Kept(err, until)
	}
	return err
}

// ReasonOf returns the answer of a script that acquires a lock as an error, or
// nil for a grant.
func ReasonOf(code int64, answer any, s *lockspec.Spec) error {
	switch code {
	case script.OK:
		return nil
	case script.NotHeld, script.Kept:
		return errs.ErrLockAcquiredByOthers
	}
	return s.KeyConflict(answer)
}

// refusedOnce returns the error of a call that makes one attempt, and found the
// lock held by others. It names WithBlock unless the lock waits anyway, or has
// a minimum hold: a scheduled job that waited would run twice.
func refusedOnce(err error, s *lockspec.Spec) error {
	switch {
	case s.Block || s.MinHold > 0 || s.Kind == lockspec.Locker:
		return errs.OneAttempt(err)
	case err == errs.ErrLockAcquiredByOthers: //nolint:errorlint // our own sentinel
		return errOnce
	}
	return fmt.Errorf("%w (one attempt; see WithBlock)", err)
}

var errOnce = fmt.Errorf("%w (one attempt; see WithBlock)", errs.ErrLockAcquiredByOthers)

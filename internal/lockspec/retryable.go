package lockspec

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// IsRetryable reports whether the same call may succeed later without any
// change to settings or code.
func IsRetryable(err error) bool {
	if err == nil || ContextEnd(err) != nil || isAny(err, Permanent) {
		return false
	}
	return isAny(err, Passing) || driver.IsTransient(err)
}

// Permanent has the errors that stay until something is changed. Passing has
// the errors that may go away without a change.
var (
	Permanent = []error{
		errs.ErrLockLost, errs.ErrNotHeld, errs.ErrInvalid, errs.ErrClosed, errs.ErrKeyConflict, errs.ErrUpgrade,
		errs.ErrMaxHold, errs.ErrForced, errs.ErrDenied, errs.ErrUnconfirmed,
	}
	Passing = []error{errs.ErrLockAcquiredByOthers, errs.ErrQuorum, errs.ErrQueueFull, errs.ErrReplicas}
)

func isAny(err error, targets []error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// ContextEnd returns the first of the two context errors in the chain of err,
// or nil. An error whose Is method matches context.Canceled counts as that: the
// cause of signal.NotifyContext does. The errors inside a [net.OpError] do
// not: a dial matches both although no context of the caller was cancelled.
func ContextEnd(err error) error { return contextEnd(err, true) }

// contextEnd is ContextEnd. If byMethod is false, Is methods do not count.
func contextEnd(err error, byMethod bool) error {
	if err == context.Canceled || err == context.DeadlineExceeded { //nolint:errorlint // identity is meant
		return err
	}
	if is, ok := err.(interface{ Is(error) bool }); ok && byMethod && is.Is(context.Canceled) {
		return context.Canceled
	}
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case *net.OpError:
		return contextEnd(e.Err, false)
	case interface{ Unwrap() error }:
		return contextEnd(e.Unwrap(), byMethod)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if end := contextEnd(one, byMethod); end != nil {
				return end
			}
		}
	}
	return nil
}

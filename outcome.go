package relock

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
)

// Outcome is the result of a call in one word, for a metric's label or a log.
type Outcome string

// The outcomes. See [OutcomeOf].
const (
	OutcomeOK          Outcome = "ok"
	OutcomeCanceled    Outcome = "canceled"
	OutcomeTimeout     Outcome = "timeout"
	OutcomeLost        Outcome = "lost"
	OutcomeUnconfirmed Outcome = "unconfirmed"
	OutcomeClosed      Outcome = "closed"
	OutcomeDenied      Outcome = "denied"
	OutcomeInvalid     Outcome = "invalid"
	OutcomeBusy        Outcome = "busy"
	OutcomeUnavailable Outcome = "unavailable"
	OutcomeOther       Outcome = "other"
)

// OutcomeOf returns the outcome of a call that returned err: the first of these
// that applies.
//
//	ok           err is nil
//	canceled     context.Canceled is anywhere in the chain
//	timeout      context.DeadlineExceeded is; a block timeout is busy
//	lost         ErrLockLost
//	unconfirmed  ErrUnconfirmed
//	closed       ErrClosed
//	denied       ErrDenied
//	invalid      a mistake: ErrInvalid, ErrKeyConflict, or ErrNotHeld alone
//	busy         ErrLockAcquiredByOthers, ErrQueueFull, ErrUpgrade
//	unavailable  ErrQuorum, ErrReplicas, or an error of the network or the
//	             server for which IsRetryableErr is true
//	other        everything else
//
// A context comes first. So a wait that was cancelled is canceled, although it
// also matches [ErrLockAcquiredByOthers]. The same is true of a Do whose
// function returns ctx.Err() after a loss: return [context.Cause] to get lost.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OutcomeOK
	}
	switch end := lockspec.ContextEnd(err); {
	case errors.Is(end, context.Canceled):
		return OutcomeCanceled
	case errors.Is(end, context.DeadlineExceeded):
		return OutcomeTimeout
	}
	for _, row := range outcomes {
		if errors.Is(err, row.reason) {
			return row.outcome
		}
	}
	if driver.IsTransient(err) {
		return OutcomeUnavailable
	}
	return OutcomeOther
}

var outcomes = []struct {
	reason  error
	outcome Outcome
}{
	{ErrLockLost, OutcomeLost},
	{ErrUnconfirmed, OutcomeUnconfirmed},
	{ErrClosed, OutcomeClosed},
	{ErrDenied, OutcomeDenied},
	{ErrInvalid, OutcomeInvalid},
	{ErrKeyConflict, OutcomeInvalid},
	{ErrNotHeld, OutcomeInvalid},
	{ErrLockAcquiredByOthers, OutcomeBusy},
	{ErrQueueFull, OutcomeBusy},
	{ErrUpgrade, OutcomeBusy},
	{ErrQuorum, OutcomeUnavailable},
	{ErrReplicas, OutcomeUnavailable},
}

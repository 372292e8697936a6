package relock

import (
	"context"
	"errors"
	"slices"

	"github.com/relock-go/relock/internal/driver"
)

// IsRetryableErr reports whether the same call may succeed later without any
// change to settings or code.
//
//	true   held by others, too few replicas, queue full
//	true   too few nodes, unless so many fail for good that the others are no quorum
//	true   network: cannot connect, connection cut, no answer in time, no free connection in the pool
//	true   server answers LOADING, BUSY, READONLY, OOM, MISCONF, NOREPLICAS,
//	       MASTERDOWN, CLUSTERDOWN, TRYAGAIN
//	true   server has no connection free: max number of clients reached
//	false  a context that has ended is anywhere in the chain, whatever else is
//	false  everything else: invalid, closed, lost, not held, not confirmed, denied,
//	       key conflict, upgrade, other server errors
//
// A blocking Lock goes on waiting while this is true. If the queue is full, it
// returns immediately.
func IsRetryableErr(err error) bool {
	if err == nil || hasContextEnd(err) || isAny(err, permanent) {
		return false
	}
	return isAny(err, passing) || driver.IsTransient(err)
}

var (
	permanent = []error{
		ErrLockLost, ErrNotHeld, ErrInvalid, ErrClosed, ErrKeyConflict, ErrUpgrade, ErrMaxHold, ErrForced, ErrDenied, ErrUnconfirmed,
	}
	passing = []error{ErrLockAcquiredByOthers, ErrQuorum, ErrQueueFull, ErrReplicas}
)

func isAny(err error, targets []error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// hasContextEnd reports whether err wraps one of the two context errors itself. A
// dial that timed out matches context.DeadlineExceeded although no context of
// the caller was cancelled.
func hasContextEnd(err error) bool {
	if err == nil {
		return false
	}
	if err == context.Canceled || err == context.DeadlineExceeded { //nolint:errorlint // identity is meant
		return true
	}
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case interface{ Unwrap() error }:
		return hasContextEnd(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), hasContextEnd)
	}
	return false
}

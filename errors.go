package relock

import (
	"context"
	"errors"
	"fmt"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
)

// The reasons for which an operation fails. Each has one meaning. Test for them
// with [errors.Is].
var (
	// ErrLockAcquiredByOthers reports that another owner holds the lock. Or
	// nobody does, but it is kept for a minimum hold, or reserved for a waiter:
	// see [State]. A call that does not wait found it so at its one attempt. A
	// call that waited found it so until its wait was over.
	ErrLockAcquiredByOthers = errs.ErrLockAcquiredByOthers

	// ErrNotHeld reports that there is nothing to unlock, extend or end by
	// force: never locked, already unlocked, or lost. After a loss the error
	// matches [ErrLockLost] too: test for that first. ErrNotHeld is also the
	// cause of a hold's context after Unlock.
	ErrNotHeld = errs.ErrNotHeld

	// ErrLockLost reports that a hold ended before its Unlock. It could not be
	// renewed in time, a fixed lease expired, or the server no longer has it.
	// Or [WithMaxHold] or an operator ended it, or the machine was suspended.
	ErrLockLost = errs.ErrLockLost

	// ErrInvalid reports a mistake in a setting, a key or a call. Nothing was
	// sent to the server. The exception is a [RedLock] with two clients of one
	// server, which is found when both answer.
	ErrInvalid = errs.ErrInvalid

	// ErrClosed reports that the [Client] was closed.
	ErrClosed = errs.ErrClosed

	// ErrQuorum reports that too few nodes of a [RedLock] answered, or that
	// their servers were started too recently to count.
	ErrQuorum = errs.ErrQuorum

	// ErrKeyConflict reports that the key in Redis is not a lock of this kind.
	// It is another kind of lock, or a key of another program.
	ErrKeyConflict = errs.ErrKeyConflict

	// ErrUpgrade reports that a read lock cannot become a write lock, because
	// there are other readers.
	ErrUpgrade = errs.ErrUpgrade

	// ErrQueueFull reports that as many waiters are queued as [WithQueueLimit]
	// allows.
	ErrQueueFull = errs.ErrQueueFull

	// ErrReplicas reports that too few replicas confirmed the lock in time. See
	// [WithReplicas].
	ErrReplicas = errs.ErrReplicas

	// ErrMaxHold reports, together with [ErrLockLost], that [WithMaxHold] ended
	// the hold.
	ErrMaxHold = errs.ErrMaxHold

	// ErrForced reports, together with [ErrLockLost], that an operator ended
	// the hold. See [Client.ForceUnlock].
	ErrForced = errs.ErrForced

	// ErrDenied reports that the server refuses this user: wrong password or
	// missing permission. Waiting does not help.
	ErrDenied = errs.ErrDenied

	// ErrDetached is the cause of a hold's context after [Client.Detach].
	// It matches [ErrNotHeld] too.
	ErrDetached = errs.ErrDetached

	// ErrUnconfirmed reports that an Unlock or a [Client.Detach] got no
	// answer, or that the server refused it. The hold has ended for its
	// holder. The release is retried in the background until the lease has
	// ended, or the time that Detach was called with.
	//
	// A [Client.ForceUnlock] is not retried: it may have been executed, or may
	// still be.
	ErrUnconfirmed = errs.ErrUnconfirmed
)

// Error is the error of every operation of this package. It says what was done,
// to which key, and why it failed.
type Error struct {
	Op  string // "lock", "unlock", "extend", "new client" ...
	Key string // as the caller named it; empty if there is none
	Err error  // the reason
}

// Error returns the operation, the quoted key and the reason. It contains
// neither a password nor the id of a hold.
func (e *Error) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("relock: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("relock: %s %.1024q: %v", e.Op, e.Key, e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// NodeError is the failure of one node of a [RedLock].
type NodeError struct {
	Node int // index of its client in the slice given to NewRedLock
	Err  error
}

// Error returns the node's index and the reason.
func (e *NodeError) Error() string { return fmt.Sprintf("node %d: %v", e.Node, e.Err) }

// Unwrap returns the reason.
func (e *NodeError) Unwrap() error { return e.Err }

// notRun returns err, the error of a Do that did not run its function, in the
// form that [NotRun] finds.
func notRun(err error) error {
	if e, own := err.(*Error); own { //nolint:errorlint // only the outermost counts
		return wrap(e.Op, e.Key, errs.NotRun(e.Err))
	}
	return errs.NotRun(err)
}

// wrap adds the operation and the key to err. It returns nil if err is nil.
func wrap(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Key: key, Err: err}
}

// IsRetryableErr reports whether the same call may succeed later without any
// change to settings or code.
//
//	true   held by others, too few replicas, queue full
//	true   too few nodes, unless so many fail permanently that the others
//	       are no quorum
//	true   network: cannot connect, connection cut, no answer in time,
//	       no free connection in the pool, expired certificate
//	true   server answers LOADING, BUSY, READONLY, OOM, MISCONF, NOREPLICAS,
//	       MASTERDOWN, CLUSTERDOWN, TRYAGAIN
//	true   servers of a Cluster disagree about which one has the key
//	true   server has no free connection: max number of clients reached
//	true   any other line that Redis does not send, as that of a proxy whose
//	       server is away; but false once the same one has come for 60 s
//	       without any success, and for an error of your own script
//	false  the error of a context, cancelled or past its deadline, is
//	       anywhere in the chain, whatever else is
//	false  everything else: invalid, closed, lost, not held, not confirmed,
//	       denied, key conflict, upgrade, other errors of Redis
//
// A blocking Lock goes on waiting while this is true. The exception is a full
// queue: then it returns immediately.
func IsRetryableErr(err error) bool { return lockspec.IsRetryable(err) }

// NotRun reports whether err is of a Do or TryDo that did not run its function:
// others held the lock, the server was away, ctx was cancelled, or another
// reason of Lock. It also finds such an error in one that wraps it.
//
// Without it, a lock that is busy inside of the function looks like a refusal
// of the call itself. For an error that the function has returned, NotRun is
// false, whatever that error is of.
func NotRun(err error) bool { return errs.IsNotRun(err) }

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
//	lost         ErrLockLost
//	canceled     context.Canceled is anywhere in the chain, or an error that
//	             says it is one, as the cause of signal.NotifyContext does
//	timeout      context.DeadlineExceeded is; a block timeout is busy
//	unconfirmed  ErrUnconfirmed
//	closed       ErrClosed
//	denied       ErrDenied
//	invalid      a mistake: ErrInvalid, ErrKeyConflict, or ErrNotHeld alone
//	busy         ErrLockAcquiredByOthers, ErrQueueFull, ErrUpgrade
//	unavailable  ErrQuorum, ErrReplicas, or an error of the network or the
//	             server for which IsRetryableErr is true
//	other        everything else
//
// So a Do whose function returns ctx.Err() after a loss is lost. A wait that
// was cancelled is canceled, although it also matches
// [ErrLockAcquiredByOthers]. If its context ended with a lost hold, it is lost.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OutcomeOK
	}
	switch end := lockspec.ContextEnd(err); {
	case errors.Is(err, ErrLockLost):
		return OutcomeLost
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

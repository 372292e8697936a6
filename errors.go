package relock

import (
	"fmt"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// The reasons for which an operation fails. Each has one meaning; ask with [errors.Is].
var (
	// ErrLockAcquiredByOthers reports that somebody else holds the lock: at the one attempt of a call that
	// does not wait, or for as long as a call waited.
	ErrLockAcquiredByOthers = errs.ErrLockAcquiredByOthers

	// ErrNotHeld reports that there is nothing to unlock, extend or end by force: never locked, already unlocked, or lost.
	// It is also the cause of a hold's context after Unlock.
	ErrNotHeld = errs.ErrNotHeld

	// ErrLockLost reports that a hold ended before its Unlock: it could not be renewed in time, a fixed lease
	// ran out, the server no longer has it, [WithMaxHold] or an operator ended it, or the machine was suspended.
	ErrLockLost = errs.ErrLockLost

	// ErrInvalid reports a mistake in a setting, a key or a call. Nothing was sent to the server, except by a
	// RedLock: that two clients are of one server is found when both answer.
	ErrInvalid = errs.ErrInvalid

	// ErrClosed reports that the [Client] was closed.
	ErrClosed = errs.ErrClosed

	// ErrQuorum reports that too few nodes of a RedLock answered, or that their servers were started too short a time ago.
	ErrQuorum = errs.ErrQuorum

	// ErrKeyConflict reports that the key in Redis is not a lock of this kind: another kind of lock, one
	// of the other mode (fair or not), or another program uses it.
	ErrKeyConflict = errs.ErrKeyConflict

	// ErrUpgrade reports that a read lock cannot become a write lock, since there are other readers.
	ErrUpgrade = errs.ErrUpgrade

	// ErrQueueFull reports that as many waiters as allowed are queued.
	ErrQueueFull = errs.ErrQueueFull

	// ErrReplicas reports that too few replicas confirmed the lock in time.
	ErrReplicas = errs.ErrReplicas

	// ErrMaxHold reports, together with [ErrLockLost], that a hold was ended by [WithMaxHold].
	ErrMaxHold = errs.ErrMaxHold

	// ErrForced reports, together with [ErrLockLost], that an operator ended the hold.
	ErrForced = errs.ErrForced

	// ErrDenied reports that the server refuses this user: wrong password or missing permission. Waiting does
	// not help.
	ErrDenied = errs.ErrDenied

	// ErrUnconfirmed reports that an Unlock got no answer, or was refused by the server. The hold is over for
	// its holder, and the release is sent again in the background until the lease has ended. Of a ForceUnlock,
	// which is not sent again: it may have been done, or may still be.
	ErrUnconfirmed = errs.ErrUnconfirmed
)

// Error is the error of every operation of this package: what was done, to which key, and why it failed.
type Error struct {
	Op  string // "lock", "unlock", "extend", "new client" ...
	Key string // as the caller named it; empty where no key is concerned
	Err error  // the reason
}

// Error returns op, quoted key and reason. It contains no password and no hold's id.
func (e *Error) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("relock: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("relock: %s %.1024q: %v", e.Op, e.Key, e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// NodeError is the failure of one node of a RedLock.
type NodeError struct {
	Node int // index of its client in the slice given to NewRedLock
	Err  error
}

// Error returns the node's index and the reason.
func (e *NodeError) Error() string { return fmt.Sprintf("node %d: %v", e.Node, e.Err) }

// Unwrap returns the reason.
func (e *NodeError) Unwrap() error { return e.Err }

// wrap gives err its operation and key; nil stays nil.
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
func IsRetryableErr(err error) bool { return lockspec.IsRetryable(err) }

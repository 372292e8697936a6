package relock

import (
	"errors"
	"fmt"
)

// The reasons for which an operation fails. Each has one meaning; ask with [errors.Is].
var (
	// ErrLockAcquiredByOthers reports that somebody else holds the lock: at the one attempt of a call that
	// does not wait, or for as long as a call waited.
	ErrLockAcquiredByOthers = errors.New("lock is held by others")

	// ErrNotHeld reports that there is nothing to unlock, extend or end by force: never locked, already unlocked, or lost.
	// It is also the cause of a hold's context after Unlock.
	ErrNotHeld = errors.New("not held")

	// ErrLockLost reports that a hold ended before its Unlock: it could not be renewed in time, a fixed lease
	// ran out, the server no longer has it, [WithMaxHold] or an operator ended it, or the machine was suspended.
	ErrLockLost = errors.New("lock lost")

	// ErrInvalid reports a mistake in a setting, a key or a call. Nothing was sent to the server, except by a
	// RedLock: that two clients are of one server is found when both answer.
	ErrInvalid = errors.New("invalid")

	// ErrClosed reports that the [Client] was closed.
	ErrClosed = errors.New("client closed")

	// ErrQuorum reports that too few nodes of a RedLock answered, or that their servers were started too short a time ago.
	ErrQuorum = errors.New("no quorum")

	// ErrKeyConflict reports that the key in Redis is not a lock of this kind: another kind of lock, one
	// of the other mode (fair or not), or another program uses it.
	ErrKeyConflict = errors.New("key is used by something else")

	// ErrUpgrade reports that a read lock cannot become a write lock, since there are other readers.
	ErrUpgrade = errors.New("read lock has other readers")

	// ErrQueueFull reports that as many waiters as allowed are queued.
	ErrQueueFull = errors.New("wait queue is full")

	// ErrReplicas reports that too few replicas confirmed the lock in time.
	ErrReplicas = errors.New("too few replicas")

	// ErrMaxHold reports, together with [ErrLockLost], that a hold was ended by [WithMaxHold].
	ErrMaxHold = errors.New("maximum hold time reached")

	// ErrForced reports, together with [ErrLockLost], that an operator ended the hold.
	ErrForced = errors.New("lock was forced open")

	// ErrDenied reports that the server refuses this user: wrong password or missing permission. Waiting does
	// not help.
	ErrDenied = errors.New("permission denied by the server")

	// ErrUnconfirmed reports that an Unlock got no answer, or was refused by the server. The hold is over for
	// its holder, and the release is sent again in the background until the lease has ended. Of a ForceUnlock,
	// which is not sent again: it may have been done, or may still be.
	ErrUnconfirmed = errors.New("release not confirmed")
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

// both is an error that matches two reasons and reads "a: b".
func both(a, b error) error { return fmt.Errorf("%w: %w", a, b) }

package relock

import (
	"context"

	"github.com/relock-go/relock/internal/inspect"
	"github.com/relock-go/relock/internal/lockspec"
)

// A ForceOption configures a [Client.ForceUnlock]. A nil option is
// [ErrInvalid].
type ForceOption interface{ applyForce(*inspect.Force) }

type forceOption func(*inspect.Force)

func (f forceOption) applyForce(to *inspect.Force) { f(to) }

// WithoutAck frees the lock immediately, without an acknowledgement of its
// holder. Two callers may then have the lock, until the first one learns of it:
// with its next renewal, or after a third of its lease. Only fencing tokens
// protect others from it meanwhile, see [WithFencing].
//
// It is for a lease that is long, if its holder is known to be dead. It is also
// for a key whose expiry another program has removed.
func WithoutAck() ForceOption { return forceOption(func(f *inspect.Force) { f.AtOnce = true }) }

const maxReason = 256

// ForceUnlock ends the hold of the lock with this name, whichever client has
// it, and returns once the lock was handed to the next waiter. It is for an
// operator who knows that the holder hangs. The reason has at most 256 bytes.
//
// Nobody else gets the lock while the hold is valid. First the hold is marked,
// so that nothing extends it. Its holder's client acknowledges the mark when it
// learns of it: immediately if it is this client, or if it waits for any lock
// at that server. On a Cluster, it must wait for this lock, or have waited
// lately. Otherwise it learns of it by its next renewal, call or Unlock, or by
// looking: after a third of the lease, a minute at most. A lease of up to 1 s
// is not looked at. A holder that is dead or cut off acknowledges nothing: its
// hold ends with its lease. The holder's error matches [ErrForced] and
// [ErrLockLost], and contains the reason.
//
// If ctx ends first, the error matches that of ctx and
// [ErrLockAcquiredByOthers], and says when the last hold ends. The mark stays:
// the lock is handed on by then, at the latest. Another call waits for the same
// hold, and keeps the first reason. [WithoutAck] does not wait.
//
// Of readers, and of a semaphore, it ends all holds that are there when it is
// called. Callers that come meanwhile keep theirs. A permit whose minimum hold
// is not over stays taken until then, so that no more callers begin. What
// nobody has is handed on immediately: a detached hold, a lock that is kept for
// its minimum hold, or reserved for a waiter. A waiter that may have learned of
// its grant by a message is a holder, once it has taken the lock.
//
// Of a [RedLock] it ends the node's part: call it at each node.
//
// It returns [ErrNotHeld] if the lock is free or has kept permits only, and
// [ErrKeyConflict] if the key is something else. ctx must not be that of the
// hold, with which it ends. It returns [ErrUnconfirmed] if there was no answer:
// the hold may be marked. It may be called again, as it never ends the next
// hold.
func (c *Client) ForceUnlock(ctx context.Context, key, reason string, opts ...ForceOption) error {
	f := &inspect.Force{Locks: c.locks(), Name: key, Reason: reason}
	f.Ended = func(redisKey string, names []string) { c.engine.EndForced(redisKey, reason, names) }
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	m.Check(len(reason) <= maxReason, "reason: %d bytes are above %d", len(reason), maxReason)
	for i, o := range opts {
		if m.Check(o != nil, "opts[%d]: ForceOption is nil", i); o != nil {
			o.applyForce(f)
		}
	}
	if err := c.ready(ctx, m.Err()); err != nil {
		return wrap("force unlock", key, err)
	}
	if err := f.Run(ctx); err != nil {
		return wrap("force unlock", key, err)
	}
	c.engine.Logger.Warn("relock: lock forced open", "key", key, "reason", reason)
	return nil
}

package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/kinds/resume"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
)

// Hold is one owner's possession of a lock, from the grant until Unlock or
// loss. For a reentrant lock it is one level. It may be used by any goroutine.
type Hold interface {
	// Key returns the name of the lock. For a [MultiLock] it returns the names
	// of all its keys, separated by commas.
	Key() string

	// Fence returns the fencing token. It never changes, and stays readable
	// after Unlock. In Redis it is 0 for a hold without [WithFencing].
	Fence() int64

	// Context returns a context with the values of the one that the lock was
	// acquired with. It is not cancelled with that one, but when the hold ends.
	// [context.Cause] then returns [ErrNotHeld] after Unlock, [ErrDetached]
	// after Detach, [ErrLockLost] after a loss, or [ErrClosed] if the client
	// was closed. After a loss it also matches [ErrMaxHold] or [ErrForced] if
	// that was the reason.
	Context() context.Context

	// Err returns nil if the hold is valid by the clock at this call. Otherwise
	// it returns why the hold has ended. Check it right before a write.
	Err() error

	// ValidUntil returns the time until which the hold is valid unless it is
	// renewed. It has a monotonic reading, and comes before the server's expiry
	// by a margin. It is zero once the hold has ended.
	ValidUntil() time.Time

	// Remaining returns how long the hold is still valid unless it is renewed:
	// the time until ValidUntil. It is 0 once the hold has ended.
	Remaining() time.Duration

	// Extend makes the lease last at least d from now. It never shortens the
	// lease. d is whole milliseconds, 10ms to 10 years, otherwise the error is
	// [ErrInvalid]. After [ErrLockLost], [ErrNotHeld] or [ErrClosed] the hold
	// has ended. Any other error leaves the hold as it was, though its lease,
	// or some of those of a [MultiLock] or [RedLock], may already be longer.
	Extend(ctx context.Context, d time.Duration) error

	// Unlock ends the hold, whatever it returns. The package documentation
	// lists its errors under Outcomes. ctx only provides values: Unlock works
	// even if ctx is cancelled.
	Unlock(ctx context.Context) error
}

// hold is the public side of a level. It adds the operation and the key to
// errors. It does not embed the level, whose other methods are not public.
type hold struct{ level *lease.Hold }

// Key returns the name of the lock.
func (h hold) Key() string { return h.level.Key() }

// Fence returns the fencing token, or 0 without fencing.
func (h hold) Fence() int64 { return h.level.Fence() }

// Context returns a context that is cancelled when the hold ends.
func (h hold) Context() context.Context { return h.level.Context() }

// ValidUntil returns the time until which the hold is valid, or zero if it has
// ended.
func (h hold) ValidUntil() time.Time { return h.level.ValidUntil() }

// Remaining returns how long the hold is still valid, or 0 if it has ended.
func (h hold) Remaining() time.Duration { return holds.Remaining(h.level.ValidUntil()) }

// Err returns nil while the hold is valid.
func (h hold) Err() error { return wrap("hold", h.Key(), h.level.Err()) }

// Extend makes the lease last at least d from now.
func (h hold) Extend(ctx context.Context, d time.Duration) error {
	return wrap("extend", h.Key(), h.level.Extend(ctx, d))
}

// Unlock ends the hold.
func (h hold) Unlock(context.Context) error { return wrap("unlock", h.Key(), h.level.Unlock()) }

// String returns a text without ids, for printing.
func (h hold) String() string { return h.level.String() }

// HoldFromContext returns the newest hold of the lock with this name that ctx
// carries, and reports whether there is one. The context of Do's function and
// [Hold.Context] carry a hold, as do contexts made from them. The hold of a
// [MultiLock] is found by the name of any of its keys. A hold that was lost or
// unlocked is found too: only [Hold.Err] reports that.
func HoldFromContext(ctx context.Context, key string) (Hold, bool) {
	if ctx == nil {
		return nil, false
	}
	for c := carried.By(ctx); c != nil; c = c.Next {
		switch h := c.Hold.(type) {
		case *lease.Hold:
			if h.Key() == key || h.Covers(key) {
				return hold{h}, true
			}
		case Hold: // of another backend
			if h.Key() == key {
				return h, true
			}
		}
	}
	return nil, false
}

// ContextWithHold returns a context that carries h, for [HoldFromContext]. It
// is for authors of a [Locker]: the context that [Hold.Context] returns must
// carry the hold. It is not cancelled when h ends.
//
// Users of a Locker do not need it: the contexts of [Do] and of a Hold carry
// the hold.
func ContextWithHold(ctx context.Context, h Hold) context.Context {
	if own, ok := h.(hold); ok {
		return carried.WithHold(ctx, own.level)
	}
	return carried.WithHold(ctx, h)
}

// ContextWithOwner returns a context that names the owner of reentrant and
// read/write locks, 1 to 256 bytes. Goroutines that share the context share
// their holds. The same id on another [Client] is another owner.
//
// A hold that the context carries (see [HoldFromContext]) takes precedence over
// id. id takes precedence over the goroutine.
//
// Use it for a goroutine that a holder starts, and that takes the lock again.
// As another owner it would wait for its own process. The log warns of that
// after one lease, and the error of that wait names it. Put no secret in id:
// both contain it.
func ContextWithOwner(ctx context.Context, id string) context.Context {
	return carried.WithOwner(ctx, id)
}

// Detach ends the hold h of this client and leaves the lock held, so that
// another process can go on with it: see [Client.Resume]. It returns a token
// for that. The lock stays for d, or for the rest of a longer [WithMinHold],
// and is free afterwards. d is whole milliseconds, 10ms to 10 years.
//
// The context of h is cancelled with the cause [ErrDetached] before anything is
// sent. h is not renewed any more, and needs no Unlock. The fencing token goes
// with the lock, so work that goes on after Detach is not refused by a guard.
//
// h must be the only level of a [RedisLock], a [ReentrantLock] or a [Locker] of
// this client. For any other hold the error is [ErrInvalid]. That error, and
// the error of a ctx that is cancelled at the call, leave h as it was. After
// any other error the hold has ended, and needs no Unlock either. With
// [ErrLockLost] it was lost before, with [ErrNotHeld] it was unlocked. With
// [ErrUnconfirmed] a request was refused or not answered, and the lock is
// released in the background.
//
// The token is enough to take the lock. Keep it as secret as a password.
func (c *Client) Detach(ctx context.Context, h Hold, d time.Duration) (token string, err error) {
	if !c.isMade() {
		return "", wrap("detach", "", c.notMade())
	}
	var m lockspec.Problems
	m.Check(ctx != nil, "context: is nil")
	m.CheckMillis("Detach", d)
	own, ok := h.(hold)
	m.Check(ok, "hold: was not returned by a Redis lock of this package")
	if err := m.Err(); err != nil {
		return "", wrap("detach", "", err)
	}
	detached, err := own.level.Detach(ctx, c.engine, d)
	if err != nil {
		return "", wrap("detach", own.Key(), err)
	}
	return detached.Token(), nil
}

// Resume acquires the lock that [Client.Detach] has left held, in this process
// or another one. It works once for each token. Afterwards, and when the time
// of the token is over, the error is [ErrLockLost]. The same error is returned
// if this client uses another server or key prefix than the one that detached.
//
// The hold has the fencing token of the detached one, its mode, and the rest of
// its minimum hold. A reentrant lock gets the caller's owner, as in Lock. Its
// lease, label, maximum hold and replicas are those of opts, or else the
// defaults of the client. Other options are [ErrInvalid], as is a text that is
// not exactly a token, and a fencing token that Redis has not given. It is also
// [ErrInvalid] while the owner has a lost hold of this lock that is not
// unlocked yet.
//
// If the server did not answer, or too few replicas did, the token may have
// been used. If it was, the lock is released in the background.
func (c *Client) Resume(ctx context.Context, token string, opts ...LockOption) (Hold, error) {
	from, err := lockspec.ReadToken(token)
	if err != nil {
		return nil, wrap("resume", "", err)
	}
	b := newBase(string(from.Key), c, opts, from.Kind())
	b.use(resume.New(&b.target, from))
	return b.hold(ctx, false)
}

package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/lease"
)

// Hold is one grant of a lock, or one level of a reentrant one. It can be used from any goroutine.
type Hold interface {
	// Key returns the name of the lock; of a [MultiLock] those of all its keys, with commas between them.
	Key() string

	// Fence returns the fencing token, fixed for life and readable after Unlock; in Redis 0 where the hold was taken without [WithFencing].
	Fence() int64

	// Context returns a context with the values of the one that the lock was acquired with, but not its end.
	// It ends when the hold does, and [context.Cause] says why: [ErrNotHeld] after Unlock, [ErrLockLost] on
	// loss, together with [ErrMaxHold] or [ErrForced] where that was the reason, [ErrClosed] when the client was
	// closed.
	Context() context.Context

	// Err returns nil while the hold is valid by the clock at this call, else why it is over. Ask it right
	// before a write.
	Err() error

	// ValidUntil returns until when the hold is valid unless it is renewed: a time with a monotonic reading,
	// earlier than the server's by a margin. It is zero once the hold is over.
	ValidUntil() time.Time

	// Extend makes the lease last at least d from now, and never shortens it. d is whole milliseconds, 10ms
	// to 10 years, else [ErrInvalid]. An error that is not [ErrLockLost], [ErrNotHeld] or [ErrClosed] leaves
	// the hold as it was; of a [MultiLock] or [RedLock] some of its parts may be longer then.
	Extend(ctx context.Context, d time.Duration) error

	// Unlock ends the hold, whatever it returns: nil, [ErrLockLost] (with [ErrNotHeld]) when it was lost
	// before, [ErrNotHeld] when it was unlocked before, [ErrUnconfirmed] when the server did not answer or
	// refused, [ErrClosed] when the client was closed before. ctx gives values only; that it has ended does not matter.
	Unlock(ctx context.Context) error
}

// hold is a level as users have it: its errors say what was done, and to which
// key. The level has methods that are none of theirs, so it is not embedded.
type hold struct{ level *lease.Hold }

// Key returns the name of the lock.
func (h hold) Key() string { return h.level.Key() }

// Fence returns the fencing token, 0 without fencing.
func (h hold) Fence() int64 { return h.level.Fence() }

// Context returns a context that is cancelled when the hold ends.
func (h hold) Context() context.Context { return h.level.Context() }

// ValidUntil returns until when the hold is valid; zero once it is over.
func (h hold) ValidUntil() time.Time { return h.level.ValidUntil() }

// Err returns nil while the hold is valid.
func (h hold) Err() error { return wrap("hold", h.Key(), h.level.Err()) }

// Extend makes the lease last at least d from now.
func (h hold) Extend(ctx context.Context, d time.Duration) error {
	return wrap("extend", h.Key(), h.level.Extend(ctx, d))
}

// Unlock ends the hold.
func (h hold) Unlock(context.Context) error { return wrap("unlock", h.Key(), h.level.Unlock()) }

// String keeps ids out of whatever prints a hold.
func (h hold) String() string { return h.level.String() }

// HoldFromContext returns the newest hold of this name that ctx carries: the context given to the function of
// Do, one of [Hold.Context], or one made from them. That of a [MultiLock] has the names of all its keys.
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

// ContextWithOwner names the owner of the reentrant and read/write locks that are called with the returned context, 1 to 256
// bytes: goroutines that share it share their holds. The same id on another [Client] is another owner.
//
// A hold that the context carries (see [HoldFromContext]) comes before it; it comes before [WithOwner] and
// the goroutine.
func ContextWithOwner(ctx context.Context, id string) context.Context {
	return carried.WithOwner(ctx, id)
}

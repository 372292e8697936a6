package relock

import (
	"context"
	"fmt"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lease"
)

// base is a lock, and the methods that all kinds share over what a kind does in
// its own way.
type base struct {
	client *Client // whose observer is told
	target acquire.Target
	how    locking // nil if the lock was not made by its constructor
}

// Validate returns all mistakes in the lock's arguments and options in one
// error, which matches [ErrInvalid].
func (b *base) Validate() error { return wrap("validate", b.target.Key, b.made()) }

// Lock acquires the lock: in one attempt, or with [WithBlock] as soon as it
// can, until ctx is cancelled. Its errors are in the table of outcomes of the
// package's documentation.
func (b *base) Lock(ctx context.Context) error {
	_, err := b.call(ctx, b.target.Settings.Block, true)
	return err
}

// TryLock acquires the lock in one attempt, also with [WithBlock].
func (b *base) TryLock(ctx context.Context) error {
	_, err := b.call(ctx, false, true)
	return err
}

// Unlock ends what Lock or TryLock acquired. A non-reentrant lock releases the
// hold of this object. A reentrant one leaves the owner's newest level,
// whichever object of this name and client acquired it. It returns [ErrNotHeld]
// if there is none. See [Hold] for its other errors.
func (b *base) Unlock(ctx context.Context) error {
	if err := b.ready(ctx); err != nil {
		return wrap("unlock", b.target.Key, err)
	}
	return wrap("unlock", b.target.Key, b.how.Release(ctx))
}

// Do runs fn while holding the lock. The context of fn is cancelled with ctx
// and when the hold is lost. It carries the hold, see [HoldFromContext].
//
// If fn was not run, the error is an [*Error] with Op "lock". Otherwise it is
// fn's own, joined with [ErrLockLost] if the hold was lost before the end. A
// release that is not confirmed is logged. If fn panics, the lock is unlocked.
func (b *base) Do(ctx context.Context, fn func(context.Context) error) error {
	return b.do(ctx, b.target.Settings.Block, fn)
}

// TryDo is Do with one attempt to acquire the lock.
func (b *base) TryDo(ctx context.Context, fn func(context.Context) error) error {
	return b.do(ctx, false, fn)
}

// Acquire is Lock for callers that want the [Hold]: of a reentrant lock one
// level. It leaves nothing in the object. Goroutines that share a non-reentrant
// one compete, and it is the hold that is unlocked.
func (b *base) Acquire(ctx context.Context) (Hold, error) {
	return b.hold(ctx, b.target.Settings.Block)
}

// TryAcquire is TryLock for callers that want the [Hold].
func (b *base) TryAcquire(ctx context.Context) (Hold, error) { return b.hold(ctx, false) }

// hold acquires for callers that want the Hold.
func (b *base) hold(ctx context.Context, block bool) (Hold, error) {
	got, err := b.call(ctx, block, false)
	if err != nil {
		return nil, err
	}
	return hold{got}, nil
}

// do runs fn between Lock and Unlock.
func (b *base) do(ctx context.Context, block bool, fn func(context.Context) error) error {
	if fn == nil {
		return wrap("lock", b.target.Key, fmt.Errorf("%w: fn: is nil", ErrInvalid))
	}
	got, err := b.call(ctx, block, true)
	if err != nil {
		return err
	}
	return hold{got}.run(ctx, func() error { return b.how.Unlock(got) }, fn)
}

// take acquires in the way of the kind.
func (b *base) take(ctx context.Context, block, lasting bool) (*lease.Hold, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	return b.how.Take(ctx, block, lasting)
}

package etcdlock

import (
	"context"
	"time"

	"github.com/relock-go/relock"
)

// Lock waits until it gets the lock or ctx ends. It goes on waiting while
// servers cannot be reached. A fair wait whose place in the queue is gone ends
// with [ErrPlaceLost].
//
// With a ctx that carries a live hold of this Locker and name (see
// [relock.HoldFromContext]), or that names an owner which has one
// ([relock.ContextWithOwner]), it adds a level and sends nothing.
func (l *Locker) Lock(ctx context.Context, key string) (relock.Hold, error) {
	return l.hold(ctx, key, true)
}

// TryLock makes one attempt; the error matches [relock.ErrLockAcquiredByOthers]
// when somebody else has the lock or, when it is fair, waits for it. It adds
// a level as Lock does.
func (l *Locker) TryLock(ctx context.Context, key string) (relock.Hold, error) {
	return l.hold(ctx, key, false)
}

func (l *Locker) hold(ctx context.Context, key string, block bool) (relock.Hold, error) {
	h, err := l.observed(ctx, key, block)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// observed is acquire with reports to the observer. Its errors are wrapped.
func (l *Locker) observed(ctx context.Context, key string, block bool) (*level, error) {
	if l == nil || l.server == nil || l.config.observer == nil {
		h, _, err := l.acquire(ctx, key, block)
		return h, wrap("lock", key, err)
	}
	o, seen := l.config.observer, ctx
	if seen == nil {
		seen = context.Background() // the call fails, but a hook may ask for a value
	}
	start := relock.LockStart{Key: key, Kind: kind, Block: block}
	if o.LockStart != nil {
		o.LockStart(seen, start)
	}
	began := time.Now()
	h, waited, err := l.acquire(ctx, key, block)
	err = wrap("lock", key, err)
	if o.LockDone != nil {
		o.LockDone(seen, relock.LockDone{LockStart: start, Start: began, End: time.Now(), Err: err, Waited: waited})
	}
	if err == nil {
		h.report.Announce()
	}
	return h, err
}

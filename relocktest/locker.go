package relocktest

import (
	"cmp"
	"context"
	"sync"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// Locker is a [relock.Locker] in memory. It can be used from any goroutine.
type Locker struct {
	settings lockspec.Spec
	mistakes error

	mu     sync.Mutex // guards the fields below, and all that belongs to the Locker
	locks  map[string]*lock
	tokens int64 // the last fencing token
	down   int   // calls of Down that were not undone
}

var _ relock.Locker = (*Locker)(nil)

// NewLocker returns a Locker whose locks behave as those of [relock.NewLocker]
// with these options. It accepts the same options. Mistakes in them are
// [relock.ErrInvalid] at the first call. The Locker needs no closing.
//
// Waiters are served in the order of their calls, also without
// [relock.WithFair]. Leases of [relock.WithWatchdog] are renewed without fail
// until Unlock, Lose or Down. [relock.WithReplicas], [relock.WithLabel] and
// [relock.WithPollInterval] have no effect. Fencing tokens are 1, 2, 3 and so
// on.
func NewLocker(opts ...relock.LockOption) *Locker {
	var m lockspec.Problems
	var own lockspec.Options
	for i, opt := range opts {
		a, ok := opt.(lockspec.Applier)
		if m.Check(ok, "opts[%d]: is no LockOption of package relock", i); ok {
			a.Apply(&own)
		}
	}
	l := &Locker{}
	l.settings = lockspec.Resolve(lockspec.Options{}, own, lockspec.Locker, &m)
	l.mistakes = m.Err()
	return l
}

// Lock waits until it gets the lock or ctx is cancelled.
func (l *Locker) Lock(ctx context.Context, key string) (relock.Hold, error) {
	return l.take(ctx, key, true)
}

// TryLock makes one attempt. Its error matches [relock.ErrLockAcquiredByOthers]
// if the lock is held.
func (l *Locker) TryLock(ctx context.Context, key string) (relock.Hold, error) {
	return l.take(ctx, key, false)
}

func (l *Locker) take(ctx context.Context, key string, block bool) (relock.Hold, error) {
	h, err := l.acquire(ctx, key, block)
	if err != nil {
		return nil, wrap("lock", key, err)
	}
	return h, nil
}

func (l *Locker) acquire(ctx context.Context, key string, block bool) (*hold, error) {
	if err := l.ready(ctx, key); err != nil {
		return nil, err
	}
	carries, by := carried.By(ctx), callers() // without mu: it calls the caller's context
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, err := l.nestLocked(ctx, by, carries, key); h != nil || err != nil {
		return h, err
	}
	k := l.lockLocked(key)
	limit := int(l.settings.QueueLimit)
	away := l.awayLocked()
	switch {
	case k.isFree() && away == nil:
		return k.grantLocked(ctx, by), nil
	case !block:
		defer k.serveLocked() // removes a key that nobody uses
		return nil, cmp.Or(away, k.refusedLocked())
	case away != nil:
	case limit > 0 && len(k.waiters) >= limit:
		return nil, errs.ErrQueueFull
	}
	return k.waitLocked(ctx, by)
}

// ready returns an error if a call cannot begin.
func (l *Locker) ready(ctx context.Context, key string) error {
	var m lockspec.Problems
	m.Check(l.settings.Kind != nil, "locker: was not made by NewLocker")
	m.Check(ctx != nil, "context: is nil")
	lockspec.CheckKey(&m, key)
	switch {
	case l.mistakes != nil:
		return l.mistakes
	case m.Err() != nil:
		return m.Err()
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	}
	return nil
}

// nestLocked adds a level to the hold that ctx carries. It returns neither a
// hold nor an error if ctx carries none that is not unlocked.
func (l *Locker) nestLocked(ctx context.Context, by stack, carries *carried.Holds, key string) (*hold, error) {
	for c := carries; c != nil; c = c.Next {
		h, ok := c.Hold.(*hold)
		if !ok || h.grant.lock.locker != l || h.Key() != key || h.unlocked {
			continue
		}
		if over := h.checkLocked(); over != nil {
			return nil, errs.ForLevel(over)
		}
		return h.grant.pushLocked(ctx, by), nil
	}
	return nil, nil
}

// lockLocked returns the lock with this name.
func (l *Locker) lockLocked(key string) *lock {
	k := l.locks[key]
	if k == nil {
		if l.locks == nil {
			l.locks = map[string]*lock{}
		}
		k = &lock{locker: l, key: key}
		l.locks[key] = k
	}
	return k
}

// String returns a text for printing.
func (l *Locker) String() string { return "locker in memory" }

// wrap adds the operation and the key to err. It returns nil if err is nil.
func wrap(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return &relock.Error{Op: op, Key: key, Err: err}
}

package relocktest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// lock is the state of one key. It is removed when nobody uses the key. The
// mutex of the Locker must be held for all methods.
type lock struct {
	locker  *Locker
	key     string
	holder  *grant      // nil if no call of the Locker holds the lock
	others  int         // calls of Busy that were not released
	kept    *time.Timer // for the rest of a minimum hold; nil if there is none
	keep    time.Time   // the end of that minimum hold
	waiters []*waiter   // the oldest first
}

// waiter is a call that waits for a lock.
type waiter struct {
	ctx   context.Context
	by    stack         // of the call
	given *hold         // set before ready is closed
	ready chan struct{} // closed when the lock is given to the call
}

// isFree reports whether a call may take the lock.
func (k *lock) isFree() bool { return k.holder == nil && k.others == 0 && k.kept == nil }

// refusedLocked returns the error of a single attempt for a lock that is not
// free.
func (k *lock) refusedLocked() error {
	if k.kept != nil && k.others == 0 {
		return errs.OneAttempt(errs.Kept(errs.ErrLockAcquiredByOthers, k.keep))
	}
	return errs.Refused
}

// waitLocked waits for the lock. It returns with the mutex held. If the lock
// was given to the call before ctx was cancelled, it returns the hold.
func (k *lock) waitLocked(ctx context.Context, by stack) (*hold, error) {
	w := &waiter{ctx: ctx, by: by, ready: make(chan struct{})}
	k.waiters = append(k.waiters, w)
	k.locker.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	k.locker.mu.Lock()
	if w.given != nil {
		return w.given, nil
	}
	k.waiters = slices.DeleteFunc(k.waiters, func(one *waiter) bool { return one == w })
	last := cmp.Or(k.locker.awayLocked(), errs.ErrLockAcquiredByOthers)
	k.serveLocked()
	k.locker.mu.Unlock()
	defer k.locker.mu.Lock()
	return nil, errs.EndOf(ctx, last) // without mu, as it calls the caller's context
}

// serveLocked gives a free lock to the oldest waiter. Without one, the key is
// not used any more.
func (k *lock) serveLocked() {
	switch {
	case !k.isFree(), len(k.waiters) > 0 && k.locker.down > 0:
	case len(k.waiters) > 0:
		w := k.waiters[0]
		k.waiters = k.waiters[1:]
		w.given = k.grantLocked(w.ctx, w.by)
		close(w.ready)
	default:
		delete(k.locker.locks, k.key)
	}
}

// freeLocked ends the time of the holder. Others get the lock, but not before
// keep.
func (k *lock) freeLocked(keep time.Time) {
	k.holder = nil
	if rest := time.Until(keep); rest > 0 {
		k.kept, k.keep = time.AfterFunc(rest, k.endOfMinHold), keep
	}
	k.serveLocked()
}

// endOfMinHold is called by the timer of the minimum hold.
func (k *lock) endOfMinHold() {
	k.locker.mu.Lock()
	defer k.locker.mu.Unlock()
	k.kept = nil
	k.serveLocked()
}

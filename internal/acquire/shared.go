package acquire

import (
	"context"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lease"
)

// shared is a lock object that several goroutines share. Its waiters wait for
// the key: package lease or a message wakes them. Only a call that finds a lost
// hold in the object waits for its Unlock.
type shared struct{ holds.Object[lease.Hold] }

// takeBy completes a call that has begun. It acquires the key with compete. If
// lasting is true, the hold belongs to the object until its release.
func (o *shared) takeBy(
	w *wait, lasting bool, compete func(*wait) (*lease.Hold, error),
) (h *lease.Hold, waited bool, err error) {
	defer w.cancel()
	defer w.stopHint()
	if lasting {
		h, err = o.lockBy(w, compete)
	} else {
		h, err = compete(w)
	}
	return h, w.waited(), w.explain(err)
}

// lockBy acquires the key with compete, and then takes the object for its user.
// Waiters wait for the key, not for the object. The object is free once they
// have the key, unless it has a lost hold that is not unlocked yet.
func (o *shared) lockBy(w *wait, compete func(*wait) (*lease.Hold, error)) (*lease.Hold, error) {
	for w.block || o.Held() == nil {
		h, err := compete(w)
		if err != nil || o.Take(h) {
			return h, err
		}
		h.Unused()
		_ = h.Unlock() // a failed release is retried
		if !w.block || !o.awaitFree(w) {
			break
		}
	}
	w.note(errs.ErrLockAcquiredByOthers)
	return nil, w.reason()
}

// awaitFree waits for the Unlock of the object's hold, and reports whether that
// came before the end of the wait.
func (o *shared) awaitFree(w *wait) bool {
	w.begin()
	select {
	case <-o.Freed():
		return true
	case <-w.Ctx.Done():
	case <-w.life.Done():
	}
	return false
}

// Unlock ends a hold that lockBy returned. It frees the object before the key,
// since the next holder of the key may use the same object.
func (o *shared) Unlock(h *lease.Hold) error {
	if h == nil {
		return errs.ErrNotHeld
	}
	o.Free(h)
	return h.Unlock()
}

// Release ends the object's hold.
func (o *shared) Release(context.Context) error { return o.Unlock(o.Held()) }

// waitsForItself reports whether a call would wait for h, a hold that its
// context carries. It would if h is active, or if h keeps the object taken,
// lost or not.
func (o *shared) waitsForItself(h *lease.Hold) bool {
	return h != nil && (h.Err() == nil || o.Held() == h)
}

package acquire

import (
	"context"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lease"
)

// Shared is a lock object that several goroutines share. Its waiters wait for
// the key: package lease or a message wakes them. Only a call that finds a lost
// hold in the object waits for its Unlock.
type Shared struct {
	*Target
	object holds.Object[lease.Hold]
}

// NewShared returns an object for the lock.
func NewShared(t *Target) Shared { return Shared{Target: t} }

// Run completes a call that has begun. It acquires the key with compete. If
// lasting is true, the hold belongs to the object until its release.
func (o *Shared) Run(w *Wait, lasting bool, compete Compete) (h *lease.Hold, waited bool, err error) {
	if !lasting {
		return w.Run(compete)
	}
	return w.Run(func(w *Wait) (*lease.Hold, error) { return o.lockBy(w, compete) })
}

// lockBy acquires the key with compete, and then takes the object for its user.
// Waiters wait for the key, not for the object. The object is free once they
// have the key, unless it has a lost hold that is not unlocked yet.
func (o *Shared) lockBy(w *Wait, compete Compete) (*lease.Hold, error) {
	for w.Block || o.object.Held() == nil {
		h, err := compete(w)
		if err != nil || o.object.Take(h) {
			return h, err
		}
		h.Unused()
		_ = h.Unlock() // a failed release is retried
		if !w.Block || !o.awaitFree(w) {
			break
		}
	}
	w.Note(errs.ErrLockAcquiredByOthers)
	return nil, w.reason()
}

// awaitFree waits for the Unlock of the object's hold, and reports whether that
// came before the end of the wait.
func (o *Shared) awaitFree(w *Wait) bool {
	w.begin()
	select {
	case <-o.object.Freed():
		return true
	case <-w.Ctx.Done():
	case <-w.life().Done():
	}
	return false
}

// Unlock ends a hold that a lasting Run returned. It frees the object before
// the key, since the next holder of the key may use the same object.
func (o *Shared) Unlock(h *lease.Hold) error {
	if h == nil {
		return errs.ErrNotHeld
	}
	o.object.Free(h)
	return h.Unlock()
}

// Release ends the object's hold.
func (o *Shared) Release(context.Context) error { return o.Unlock(o.object.Held()) }

// CheckSelfWait returns an error if a call would wait for h, a hold that its
// context carries, or nil. It would wait if h is active, or if h keeps the
// object taken, lost or not.
func (o *Shared) CheckSelfWait(h *lease.Hold) error {
	if h == nil || h.Err() != nil && o.object.Held() != h {
		return nil
	}
	return o.errSelfWait()
}

package acquire

import (
	"context"
	"sync"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
)

// shared is a lock object as its goroutines share it: taken from Lock to the matching Unlock, also when the hold is lost
// in between.
type shared struct {
	mu    sync.Mutex
	held  *lease.Hold   // by Lock, until the matching Unlock
	freed chan struct{} // closed then; nil while nobody waits for it
}

// takeBy ends a call that was begun: compete acquires the key, for the object if
// the hold is to last until release.
func (o *shared) takeBy(w *wait, lasting bool, compete func(*wait) (*lease.Hold, error)) (*lease.Hold, error) {
	defer w.cancel()
	if lasting {
		return o.lockBy(w, compete)
	}
	return compete(w)
}

// lockBy takes the key by compete, and then the object for its user. All who wait do so for the key: the object is free
// once they have it, unless a hold of its was lost that is not unlocked yet.
func (o *shared) lockBy(w *wait, compete func(*wait) (*lease.Hold, error)) (*lease.Hold, error) {
	for w.block || !o.isTaken() {
		h, err := compete(w)
		if err != nil || o.take(h) {
			return h, err
		}
		h.Unused()
		_ = h.Unlock() // one that fails is repeated
		if !w.block || !o.awaitFree(w) {
			break
		}
	}
	w.note(errs.ErrLockAcquiredByOthers)
	return nil, w.reason()
}

func (o *shared) isTaken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held != nil
}

// take makes the hold the object's, unless it has one.
func (o *shared) take(h *lease.Hold) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held == nil {
		o.held = h
	}
	return o.held == h
}

// awaitFree waits for the Unlock of the object's hold.
func (o *shared) awaitFree(w *wait) bool {
	o.mu.Lock()
	if o.held == nil {
		o.mu.Unlock()
		return true
	}
	if o.freed == nil {
		o.freed = make(chan struct{})
	}
	freed := o.freed
	o.mu.Unlock()
	select {
	case <-freed:
		return true
	case <-w.Ctx.Done():
	case <-w.life.Done():
	}
	return false
}

// Unlock ends a hold that lockBy got. The object is free before the key, which the next user of both may get.
func (o *shared) Unlock(h *lease.Hold) error {
	if h == nil {
		return errs.ErrNotHeld
	}
	o.mu.Lock()
	if o.held == h {
		o.held = nil
		if o.freed != nil {
			close(o.freed)
			o.freed = nil
		}
	}
	o.mu.Unlock()
	return h.Unlock()
}

// Release ends the object's hold.
func (o *shared) Release(context.Context) error { return o.Unlock(o.Held()) }

// Held returns the object's hold, or nil.
func (o *shared) Held() *lease.Hold {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

// waitsForItself says that a call would wait for h, a hold that its context carries: one that is live, or that keeps the
// object taken, lost or not.
func (o *shared) waitsForItself(h *lease.Hold) bool {
	return h != nil && (h.Err() == nil || o.Held() == h)
}

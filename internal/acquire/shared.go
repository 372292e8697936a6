package acquire

import (
	"context"
	"sync"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
)

// shared is the state of a lock object that several goroutines share. The
// object is taken from Lock to the matching Unlock, even if the hold is lost in
// between.
type shared struct {
	mu   sync.Mutex
	held *lease.Hold // from Lock to the matching Unlock
	// freed is closed by that Unlock, for calls that find a lost hold here; nil
	// if there are none. Waiters for the key are woken by package lease or a
	// message.
	freed chan struct{}
}

// takeBy completes a call that has begun. It acquires the key with compete. If
// lasting is true, the hold belongs to the object until its release.
func (o *shared) takeBy(w *wait, lasting bool, compete func(*wait) (*lease.Hold, error)) (*lease.Hold, error) {
	defer w.cancel()
	if lasting {
		h, err := o.lockBy(w, compete)
		return h, w.explain(err)
	}
	h, err := compete(w)
	return h, w.explain(err)
}

// lockBy acquires the key with compete, and then takes the object for its user.
// Waiters wait for the key, not for the object. The object is free once they
// have the key, unless it has a lost hold that is not unlocked yet.
func (o *shared) lockBy(w *wait, compete func(*wait) (*lease.Hold, error)) (*lease.Hold, error) {
	for w.block || !o.isTaken() {
		h, err := compete(w)
		if err != nil || o.take(h) {
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

func (o *shared) isTaken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held != nil
}

// take makes h the object's hold, unless the object has one. It reports whether
// h is the object's hold.
func (o *shared) take(h *lease.Hold) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held == nil {
		o.held = h
	}
	return o.held == h
}

// awaitFree waits for the Unlock of the object's hold, and reports whether that
// came before the end of the wait.
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
	w.begin()
	defer w.end()
	select {
	case <-freed:
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

// waitsForItself reports whether a call would wait for h, a hold that its
// context carries. It would if h is active, or if h keeps the object taken,
// lost or not.
func (o *shared) waitsForItself(h *lease.Hold) bool {
	return h != nil && (h.Err() == nil || o.Held() == h)
}

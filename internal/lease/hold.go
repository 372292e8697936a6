package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lockspec"
)

// Hold is the hold of one Lock call. It is the only one of its lease, or one of
// several levels.
type Hold struct {
	lease    *Lease
	values   context.Context // the parent of Context, for its values
	settings *lockspec.Spec
	maxHold  *maxHold      // nil if there is none
	fence    int64         // 0 without fencing
	report   *holds.Report // for the observer; nil if there is none

	// Guarded by lease.mu.
	watched  bool
	unlocked bool
	lost     error // error of the Unlock that found the hold lost or the client closed; else nil
	ends     holds.Contexts
}

// Key returns the name of the lock.
func (h *Hold) Key() string { return h.lease.key }

// Covers reports whether key is the key of the hold, or one of its keys.
func (h *Hold) Covers(key string) bool { return h.lease.covers(key) }

// Family returns how the lock is stored, and who owns it.
func (h *Hold) Family() lockspec.Family { return h.lease.family() }

// Owner returns the id of the owner, or "" for a lock without one.
func (h *Hold) Owner() string {
	if h.lease.owner == nil {
		return ""
	}
	return h.lease.owner.key.ID
}

// Granted returns when Redis granted the lock.
func (h *Hold) Granted() time.Time { return h.lease.granted() }

// Announce notes that the grant was announced to the observer. From now on the
// hold's end may be reported.
func (h *Hold) Announce() { h.report.Announce() }

// Unused notes that the caller had no use for the hold. The key is then not
// kept for the minimum hold, unless another level uses the lease.
func (h *Hold) Unused() { h.lease.unused() }

// Fence returns the fencing token, or 0 without fencing.
func (h *Hold) Fence() int64 { return h.fence }

// Context returns a context that is cancelled when the hold ends.
func (h *Hold) Context() context.Context {
	h.lease.mu.Lock()
	made := h.ends.Made()
	h.lease.mu.Unlock()
	if made != nil {
		return made
	}
	ctx, cancel := holds.New(h.values, h)
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return h.ends.Use(ctx, cancel)
}

// Work returns the context of Do's function. It is cancelled with ctx and with
// the hold, for the reason of the one that ends first.
func (h *Hold) Work(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(carried.WithHold(ctx, h))
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.ends.Add(cancel)
	return ctx, cancel
}

// CancelWith calls cancel when the hold ends, or immediately if it has ended.
// Unlike Context and Work, it makes no context that carries the hold.
func (h *Hold) CancelWith(cancel context.CancelCauseFunc) {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.ends.Add(cancel)
}

// StopRenewing lets the lease end by itself, unless it is released before.
func (h *Hold) StopRenewing() {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	if h.watched && h.ends.Err() == nil {
		h.watched = false
		h.lease.unwatch(h.settings.Lease)
	}
}

// Err returns why the hold has ended, or nil. It decides by the clock, not by
// whether a timer has fired.
func (h *Hold) Err() error { return h.errAt(time.Now()) }

// errAt is Err at now, which the caller has just read.
func (h *Hold) errAt(now time.Time) error {
	h.lease.checkSuspended(now)
	h.tick(now)
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return h.ends.Err()
}

// tick ends the hold, or its lease, if its time has come.
func (h *Hold) tick(now time.Time) {
	_ = h.lease.checkAt(now)
	if h.maxHold != nil && !now.Before(h.maxHold.end) {
		h.expire()
	}
}

// ValidUntil returns the time until which the hold is valid, or zero if it has
// ended.
func (h *Hold) ValidUntil() time.Time {
	if h.Err() != nil {
		return time.Time{}
	}
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	if h.maxHold != nil && h.maxHold.end.Before(h.lease.validUntil) {
		return h.maxHold.end
	}
	return h.lease.validUntil
}

// end marks the hold as ended at this time, and cancels its contexts; Lease.mu
// must be held.
func (h *Hold) end(at time.Time, why error) {
	if h.ends.Err() != nil {
		return
	}
	h.report.Ended(at)
	h.ends.End(why)
	if h.settings.Kind.Writes {
		h.lease.writes--
	}
	if h.watched {
		h.lease.unwatch(h.settings.Lease)
	}
	if h.maxHold != nil {
		h.maxHold.Stop()
	}
}

package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lockspec"
)

// Hold is the Hold of one Lock: the only one of its lease, or one of several
// of a reentrant lock.
type Hold struct {
	lease    *Lease
	values   context.Context // what Context is made from
	settings *lockspec.Spec
	maxHold  *maxHold      // nil when there is none
	fence    int64         // 0 without fencing
	report   *holds.Report // by an observer; nil when there is none

	// Guarded by lease.mu.
	watched  bool
	unlocked bool
	lost     error // the answer to the Unlock that found it lost, or the client closed; nil for any other
	ends     holds.Contexts
}

// Key returns the name of the lock.
func (h *Hold) Key() string { return h.lease.key }

// Covers reports whether the hold is one of this key, maybe among others.
func (h *Hold) Covers(key string) bool { return h.lease.covers(key) }

// Family returns how the lock is stored, and who owns it.
func (h *Hold) Family() lockspec.Family { return h.lease.family() }

// Owner returns the id of the owner, "" for a lock without one.
func (h *Hold) Owner() string {
	if h.lease.owner == nil {
		return ""
	}
	return h.lease.owner.key.ID
}

// Announce tells the observer of the hold's end, now that its grant is known.
func (h *Hold) Announce() { h.report.Announce() }

// Unused says that the caller had no use for the hold: it is not kept.
func (h *Hold) Unused() { h.lease.unused() }

// Fence returns the fencing token, 0 without fencing.
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

// Work is the context of Do's function: it ends with ctx and with the level,
// for the reason of whichever was first.
func (h *Hold) Work(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(carried.WithHold(ctx, h))
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.ends.Add(cancel)
	return ctx, cancel
}

// Err is why the hold is over by the clock of now, or nil.
func (h *Hold) Err() error {
	now := time.Now()
	h.lease.checkSuspended(now)
	h.tick(now)
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return h.ends.Over()
}

// tick ends the level, or its lease, when the time has come.
func (h *Hold) tick(now time.Time) {
	_ = h.lease.checkAt(now)
	if h.maxHold != nil && !now.Before(h.maxHold.end) {
		h.expire()
	}
}

// ValidUntil returns until when the hold is valid; zero once it is over.
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

// end marks the level as over and ends its context; mu is held.
func (h *Hold) end(why error) {
	if h.ends.Over() != nil {
		return
	}
	h.report.Ended()
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

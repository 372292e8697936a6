package relocktest

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lockspec"
)

// hold is one level of a grant.
type hold struct {
	grant  *grant
	values context.Context // the parent of Context, for its values
	max    time.Time       // the end of its maximum hold; zero if there is none
	timer  *time.Timer     // for the maximum hold; nil if there is none
	by     stack           // of the call that acquired it

	// Guarded by Locker.mu.
	ends     holds.Contexts
	unlocked bool
}

var _ relock.Hold = (*hold)(nil)

func (g *grant) pushLocked(ctx context.Context, by stack) *hold {
	h := &hold{grant: g, values: ctx, by: by}
	g.levels.Push(h)
	if d := g.lock.locker.settings.MaxHold; d > 0 {
		h.max = time.Now().Add(d)
		h.timer = time.AfterFunc(d, func() { _ = h.state() })
	}
	return h
}

// Key returns the name of the lock.
func (h *hold) Key() string { return h.grant.lock.key }

// Fence returns the fencing token, or 0 without fencing.
func (h *hold) Fence() int64 { return h.grant.fence }

// Context returns a context that is cancelled when the hold ends.
func (h *hold) Context() context.Context {
	ctx, cancel := holds.New(h.values, h)
	h.grant.lock.locker.mu.Lock()
	defer h.grant.lock.locker.mu.Unlock()
	_ = h.checkLocked()
	return h.ends.Use(ctx, cancel)
}

// Err returns nil while the hold is valid.
func (h *hold) Err() error { return wrap("hold", h.Key(), h.state()) }

// state returns why the hold has ended by the current clock, or nil.
func (h *hold) state() error {
	h.grant.lock.locker.mu.Lock()
	defer h.grant.lock.locker.mu.Unlock()
	return h.checkLocked()
}

// checkLocked ends the hold if its time has come: the clock decides, not
// whether a timer has fired. It returns why the hold has ended, or nil.
func (h *hold) checkLocked() error {
	h.grant.checkedLocked()
	if h.ends.Err() == nil && !h.max.IsZero() && !time.Now().Before(h.max) {
		h.expireLocked()
	}
	return h.ends.Err()
}

// expireLocked ends a hold whose maximum hold has ended. Other levels go on.
func (h *hold) expireLocked() {
	g := h.grant
	why := errs.MaxHold(g.lock.locker.settings.MaxHold)
	h.endLocked(why)
	if g.levels.Live--; g.levels.Live == 0 {
		g.endLocked(why)
		g.lock.freeLocked(g.keepLocked())
	}
}

// endLocked ends the level, and cancels its contexts.
func (h *hold) endLocked(why error) {
	h.ends.End(why)
	if h.timer != nil {
		h.timer.Stop()
	}
}

// ValidUntil returns the time until which the hold is valid, or zero if it has
// ended.
func (h *hold) ValidUntil() time.Time {
	h.grant.lock.locker.mu.Lock()
	defer h.grant.lock.locker.mu.Unlock()
	if h.checkLocked() != nil {
		return time.Time{}
	}
	until := h.grant.untilLocked()
	if !h.max.IsZero() && h.max.Before(until) {
		return h.max
	}
	return until
}

// Remaining returns how long the hold is valid unless it is renewed, or 0 if it
// has ended.
func (h *hold) Remaining() time.Duration { return holds.Remaining(h.ValidUntil()) }

// Extend makes the lease last at least d from now.
func (h *hold) Extend(ctx context.Context, d time.Duration) error {
	return wrap("extend", h.Key(), h.extend(ctx, d))
}

func (h *hold) extend(ctx context.Context, d time.Duration) error {
	var m lockspec.Problems
	m.CheckMillis("Extend", d)
	m.Check(ctx != nil, "context: is nil")
	if err := m.Err(); err != nil {
		return err
	}
	var end error
	if ctx.Err() != nil { // without mu, as it calls the caller's context
		end = errs.EndOf(ctx, nil)
	}
	h.grant.lock.locker.mu.Lock()
	defer h.grant.lock.locker.mu.Unlock()
	if err := cmp.Or(h.checkLocked(), end, h.grant.lock.locker.awayLocked()); err != nil {
		return err
	}
	if until := time.Now().Add(d - lockspec.Drift(d)); until.After(h.grant.extended) {
		h.grant.extended = until
	}
	return nil
}

// Unlock ends the level. The last one releases the lock.
func (h *hold) Unlock(context.Context) error { return wrap("unlock", h.Key(), h.unlock()) }

func (h *hold) unlock() error {
	g := h.grant
	g.lock.locker.mu.Lock()
	defer g.lock.locker.mu.Unlock()
	over := h.checkLocked()
	if h.unlocked {
		return errs.ErrNotHeld
	}
	h.unlocked = true
	g.levels.Drop(h)
	if over != nil {
		return errs.NotHeld(over)
	}
	h.endLocked(errs.ErrNotHeld)
	if g.levels.Live--; g.levels.Live == 0 {
		g.endLocked(errs.ErrNotHeld)
		g.lock.freeLocked(g.keepLocked())
		return g.lock.locker.unconfirmedLocked()
	}
	return nil
}

// String returns a text for printing.
func (h *hold) String() string { return "hold of " + strconv.Quote(h.Key()) }

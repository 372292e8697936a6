package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/validity"
)

// Hold is the hold of one Lock call. It is the only one of its lease, one of
// several levels, or that of a group.
type Hold struct {
	grant    grant
	values   context.Context // the parent of Context, for its values
	settings *lockspec.Spec
	maxHold  *maxHold      // nil if there is none
	fence    int64         // 0 without fencing
	report   *holds.Report // for the observer; nil if there is none

	// Guarded by the mutex of the grant.
	unlocked bool
	lost     *error // of the Unlock that found the hold lost or the client closed; rare, so it takes no more room
	ends     holds.Contexts
}

// maxHold is the timer for the maximum hold of a level, and when that ends.
type maxHold struct {
	*time.Timer
	end time.Time
}

// ErrLate is the error of an acquire that was granted after its lease or its
// maximum hold had ended.
var ErrLate = errs.Join(errors.New("granted after the lease or maximum hold had expired"), driver.ErrTimeout)

// grant is what a hold is of: a [Lease], or a [Group] of several.
type grant interface {
	Valid() *validity.Validity
	About(more ...any) []any
	single() *Lease // nil for a group
	ofClient() *client
	isOf(c *client) bool
	covers(key string) bool
	unused()
	checkSuspended(now time.Time)
	// levelEnded notes that a level has ended; the mutex is held.
	levelEnded(h *Hold)
	// levelExpired ends a level whose maximum hold has ended; the mutex is
	// held. It returns what is to be done without it.
	levelExpired(h *Hold, why error) (follow func())
	unlock(h *Hold) error
	extend(ctx context.Context, h *Hold, d time.Duration) error
}

// begin makes h a hold of what was granted, by a request that was sent at sent;
// the mutex is held.
func (h *Hold) begin(ctx context.Context, of grant, sent, granted time.Time, s *lockspec.Spec, fence int64) {
	v := of.Valid()
	*h = Hold{
		grant: of, values: ctx, settings: s, fence: fence,
		report: of.ofClient().Hooks.report(ctx, v.Name, s.KindName(), granted),
	}
	if s.MaxHold > 0 {
		end := sent.Add(s.MaxHold)
		h.maxHold = &maxHold{time.AfterFunc(time.Until(end), h.expire), end}
	}
}

// mu returns the mutex of the grant.
func (h *Hold) mu() *sync.Mutex { return &h.grant.Valid().Mu }

// Key returns the name of the lock.
func (h *Hold) Key() string { return h.grant.Valid().Name }

// Covers reports whether key is the key of the hold, or one of its keys.
func (h *Hold) Covers(key string) bool { return h.grant.covers(key) }

// Kind returns the kind of lock that the hold was acquired as.
func (h *Hold) Kind() *lockspec.Kind { return h.settings.Kind }

// Family returns how the lock is stored, and who owns it.
func (h *Hold) Family() lockspec.Family {
	if l := h.grant.single(); l != nil && l.owner != nil {
		return l.owner.key.Family
	}
	return lockspec.PlainFamily
}

// Owner returns the id of the owner, or "" for a lock without one.
func (h *Hold) Owner() string {
	if l := h.grant.single(); l != nil && l.owner != nil {
		return l.owner.key.ID
	}
	return ""
}

// Granted returns when Redis granted the lock.
func (h *Hold) Granted() time.Time { return h.grant.Valid().Granted() }

// Announce notes that the grant was announced to the observer. From now on the
// hold's end may be reported.
func (h *Hold) Announce() { h.report.Announce() }

// Unused notes that the caller had no use for the hold. The key is then not
// kept for the minimum hold, unless another level uses the lease.
func (h *Hold) Unused() { h.grant.unused() }

// Fence returns the fencing token, or 0 without fencing.
func (h *Hold) Fence() int64 { return h.fence }

// Context returns a context that is cancelled when the hold ends.
func (h *Hold) Context() context.Context {
	h.mu().Lock()
	made := h.ends.Made()
	h.mu().Unlock()
	if made != nil {
		return made
	}
	ctx, cancel := holds.New(h.values, h)
	h.mu().Lock()
	defer h.mu().Unlock()
	return h.ends.Use(ctx, cancel)
}

// Work returns the context of Do's function. It is cancelled with ctx and with
// the hold, for the reason of the one that ends first.
func (h *Hold) Work(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(carried.WithHold(ctx, h))
	h.mu().Lock()
	defer h.mu().Unlock()
	h.ends.Add(cancel)
	return ctx, cancel
}

// IsUnlocked reports whether Unlock was called.
func (h *Hold) IsUnlocked() bool {
	h.mu().Lock()
	defer h.mu().Unlock()
	return h.unlocked
}

// Err returns why the hold has ended, or nil. It decides by the clock, not by
// whether a timer has fired.
func (h *Hold) Err() error { return h.errAt(time.Now()) }

// errAt is Err at now, which the caller has just read.
func (h *Hold) errAt(now time.Time) error {
	h.grant.checkSuspended(now)
	h.tick(now)
	h.mu().Lock()
	defer h.mu().Unlock()
	return h.ends.Err()
}

// tick ends the hold, or its lease, if its time has come.
func (h *Hold) tick(now time.Time) {
	_ = h.grant.Valid().CheckAt(now)
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
	v := h.grant.Valid()
	v.Mu.Lock()
	defer v.Mu.Unlock()
	if h.maxHold != nil && h.maxHold.end.Before(v.Until()) {
		return h.maxHold.end
	}
	return v.Until()
}

// isUnlimited reports whether the hold is live and has no maximum; the mutex is
// held.
func (h *Hold) isUnlimited() bool { return h.maxHold == nil && h.ends.Err() == nil }

// expire ends the hold when its maximum hold has ended.
func (h *Hold) expire() {
	follow := validity.Nothing
	h.mu().Lock()
	if h.ends.Err() == nil {
		follow = h.grant.levelExpired(h, errs.MaxHold(h.settings.MaxHold))
	}
	h.mu().Unlock()
	follow()
}

// end marks the hold as ended at this time, and cancels its contexts; the mutex
// is held.
func (h *Hold) end(at time.Time, why error) {
	if h.ends.Err() != nil {
		return
	}
	h.report.Ended(at)
	h.ends.End(why)
	h.grant.levelEnded(h)
	if h.maxHold != nil {
		h.maxHold.Stop()
	}
}

// refusal returns why a hold that was just granted has ended already, or nil;
// the mutex is held.
func (h *Hold) refusal() error {
	if errors.Is(h.ends.Err(), errs.ErrMaxHold) {
		return ErrLate
	}
	return h.ends.Err()
}

package etcdlock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
)

// grant is one hold in etcd: its key, its session, and the levels that share
// it. Its validity is that of its session.
type grant struct {
	locker        *Locker
	name          string // of the lock, as given by the caller
	key           string // in etcd
	slot          *slot  // names the key; nil if unfair
	hold          string
	value         string
	began         time.Time
	rev           int64    // create revision of the key
	indeterminate bool     // a request for the key was never answered
	origin        *session // the session of these requests
	owner         *owner   // nil if the call named none
	moving        turn     // held by the Extend that moves the key to another lease

	// Guarded by Locker.mu.
	session *session
	mod     int64    // mod revision of the key, as far as answers have shown
	also    *session // may have the key instead, if a move was not answered; else nil
	over    error    // why it ended; nil while it is live
	old     bool     // it is held for very long, which was logged
	awaited bool     // a call of its Locker waits for it, which was logged
	levels  holds.Levels[*level]
}

// level is the [relock.Hold] of one Lock call. It is the only one of its grant,
// or one of several.
type level struct {
	grant  *grant
	values context.Context // the parent of Context, for its values

	report *holds.Report // for the observer; nil if there is none

	// Guarded by Locker.mu.
	ends     holds.Contexts
	unlocked bool
}

var _ relock.Hold = (*level)(nil)

// pushLocked adds a level.
func (g *grant) pushLocked(ctx context.Context) *level {
	h := &level{grant: g, values: ctx, report: holds.NewReport(ctx, g.locker.holdDone(), nil, g.name, kind, time.Now())}
	g.levels.Push(h)
	return h
}

// checkLocked ends the grant if it is no longer valid by the clocks. It returns
// why the grant has ended, or nil.
func (g *grant) checkLocked() error {
	if g.over == nil {
		g.locker.checkSuspendLocked()
	}
	if g.over == nil && time.Until(g.untilLocked()) <= 0 {
		for _, s := range g.sessionsLocked() {
			_ = s.checkLocked()
		}
	}
	return g.over
}

func (g *grant) endLocked(why error) {
	if g.over != nil {
		return
	}
	g.over = why
	for _, h := range g.levels.All {
		h.endLocked(why)
	}
	g.levels.Live = 0
	if g.locker.held[g.name] == g {
		delete(g.locker.held, g.name)
	}
	for _, s := range g.sessionsLocked() {
		delete(s.grants, g)
		if why != relock.ErrNotHeld { //nolint:errorlint // our own; Unlock sends the release first
			s.retireLocked()
		}
	}
}

// sessionsLocked returns the sessions whose lease may have the key.
func (g *grant) sessionsLocked() []*session {
	if g.also == nil {
		return []*session{g.session}
	}
	return []*session{g.session, g.also}
}

// lose ends a grant whose key is gone, and logs the loss.
func (g *grant) lose(why error) {
	l := g.locker
	l.mu.Lock()
	if g.over != nil {
		l.mu.Unlock()
		return
	}
	g.endLocked(why)
	r := g.removalLocked()
	l.mu.Unlock()
	l.logger.Warn("relock: lock lost", "key", g.name, "kind", kind, "reason", why.Error())
	l.clean(r)
}

// endLocked ends the level. An Unlock reports its own end. A loss is reported
// on a goroutine, because the mutex is held.
func (h *level) endLocked(why error) {
	if h.ends.Err() != nil {
		return
	}
	h.report.Ended(time.Now())
	h.ends.End(why)
	if why != relock.ErrNotHeld && h.report.Set("hold", why) { //nolint:errorlint // our own reason
		h.grant.locker.tasks.Start(h.report.Notify) // Close waits for it
	}
}

// Key returns the name of the lock.
func (h *level) Key() string { return h.grant.name }

// Fence returns the create revision of the hold's key. It is larger than that
// of any earlier hold of the lock.
func (h *level) Fence() int64 { return h.grant.rev }

// Context returns a context that is cancelled when the hold ends.
func (h *level) Context() context.Context {
	ctx, cancel := holds.New(h.values, h)
	h.grant.locker.mu.Lock()
	defer h.grant.locker.mu.Unlock()
	_ = h.grant.checkLocked()
	return h.ends.Use(ctx, cancel)
}

func (h *level) Err() error { return wrap("hold", h.grant.name, h.state()) }

// state returns why the hold has ended by the current clock, or nil.
func (h *level) state() error {
	h.grant.locker.mu.Lock()
	defer h.grant.locker.mu.Unlock()
	_ = h.grant.checkLocked() // ends the levels if the grant is no longer valid
	return h.ends.Err()
}

func (h *level) ValidUntil() time.Time {
	g := h.grant
	g.locker.mu.Lock()
	defer g.locker.mu.Unlock()
	_ = g.checkLocked()
	if h.ends.Err() != nil {
		return time.Time{}
	}
	return g.untilLocked()
}

// Remaining returns how long the hold is still valid, or 0 if it has ended.
func (h *level) Remaining() time.Duration { return holds.Remaining(h.ValidUntil()) }

func (g *grant) untilLocked() time.Time {
	if g.also != nil && g.also.until.Before(g.session.until) {
		return g.also.until
	}
	return g.session.until
}

// Unlock ends the level. The last one also ends the hold. Only the values of
// ctx are used.
func (h *level) Unlock(ctx context.Context) error {
	if ctx == nil {
		ctx = context.Background() // the hold must end, whatever else is wrong
	}
	h.report.Ended(time.Now())
	last, err := h.leave()
	if err != nil {
		return wrap("unlock", h.grant.name, err) // it had already ended
	}
	if last != nil {
		err = last.release(ctx)
	}
	h.report.Done("unlock", err)
	return wrap("unlock", h.grant.name, err)
}

func (h *level) leave() (last *removal, err error) {
	h.grant.locker.mu.Lock()
	defer h.grant.locker.mu.Unlock()
	_ = h.grant.checkLocked() // the clock decides, not whether a timer has fired
	return h.leaveLocked()
}

// leaveLocked ends the level in this process. It returns the removal of the key
// if it was the last level of a live grant.
func (h *level) leaveLocked() (last *removal, err error) {
	if h.unlocked {
		return nil, relock.ErrNotHeld
	}
	h.unlocked = true
	h.grant.dropLocked(h)
	if over := h.ends.Err(); over != nil {
		return nil, errs.Gone(over)
	}
	h.endLocked(relock.ErrNotHeld)
	h.grant.levels.Live--
	if h.grant.levels.Live > 0 {
		return nil, nil
	}
	last = h.grant.removalLocked() // before the grant ends: one of the two keeps the session
	h.grant.endLocked(relock.ErrNotHeld)
	return last, nil
}

// dropLocked removes an unlocked level. After the last one the owner has no
// grant.
func (g *grant) dropLocked(h *level) {
	if last := g.levels.Drop(h); last && g.owner != nil {
		g.owner.grant = nil
		g.locker.exitLocked(g.owner)
	}
}

// Extend makes the lease last at least d from now. If d is longer than the
// Locker's TTL, the hold gets a separate lease of that length. That lease is
// renewed like the other one. If the process dies, the lock is free when that
// lease ends.
func (h *level) Extend(ctx context.Context, d time.Duration) error {
	return wrap("extend", h.grant.name, h.extend(ctx, d))
}

func (h *level) extend(ctx context.Context, d time.Duration) error {
	switch {
	case ctx == nil:
		return errNilContext
	case d > maxTTL:
		return fmt.Errorf("%w: Extend: %v is above %v", relock.ErrInvalid, d, maxTTL)
	case d < minExtend || d%time.Millisecond != 0:
		return fmt.Errorf("%w: Extend: %v is not a whole number of milliseconds, 10 or more", relock.ErrInvalid, d)
	}
	if err := h.state(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errs.EndOf(ctx, nil)
	}
	ctx, leave := both(ctx, h.grant.locker.life)
	defer leave()
	err := h.grant.lengthen(ctx, d)
	if over := h.state(); over != nil {
		return over // it may have been unlocked meanwhile
	}
	if err != nil && ctx.Err() != nil {
		return errs.EndOf(ctx, nil)
	}
	return err
}

const minExtend = 10 * time.Millisecond

// String returns a text without ids, for code that prints a hold.
func (h *level) String() string { return "hold of " + strconv.Quote(h.grant.name) }

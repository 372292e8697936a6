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

// grant is one hold in etcd: its key, the session that the belief in it is the session's, and the levels that share it.
type grant struct {
	locker *Locker
	name   string // of the lock, as the caller named it
	key    string // in etcd
	slot   *slot  // that names the key; nil when unfair
	hold   string
	value  string
	rev    int64    // create revision of the key
	doubt  bool     // a request that makes the key was never answered
	origin *session // that those requests go under
	owner  *owner   // nil when the call named none
	moving turn     // of the Extend that moves the key to another lease

	// Guarded by Locker.mu.
	session *session
	mod     int64    // mod revision of the key, as far as answers have told
	also    *session // the one that the key may stand under instead, when a move was not answered; else nil
	over    error    // why it ended; nil while it is live
	levels  holds.Levels[*level]
}

// level is the [relock.Hold] of one Lock: the only one of its grant, or one of several.
type level struct {
	grant  *grant
	values context.Context // what Context is made from

	report *holds.Report // to the observer; nil if there is none

	// Guarded by Locker.mu.
	ends     holds.Contexts
	unlocked bool
}

var _ relock.Hold = (*level)(nil)

// pushLocked adds a level.
func (g *grant) pushLocked(ctx context.Context) *level {
	h := &level{grant: g, values: ctx, report: holds.NewReport(ctx, g.locker.holdDone(), g.name, kind)}
	g.levels.Push(h)
	return h
}

// checkLocked ends the grant when the clocks say so, and returns why it is over, or nil.
func (g *grant) checkLocked() error {
	if g.over == nil {
		g.locker.lookLocked()
	}
	if g.over == nil && time.Until(g.untilLocked()) <= 0 {
		for _, s := range g.sessionsLocked() {
			_ = s.checkLocked()
		}
	}
	return g.over
}

// endLocked ends the grant and its levels.
func (g *grant) endLocked(why error) {
	if g.over != nil {
		return
	}
	g.over = why
	for _, h := range g.levels.All {
		h.endLocked(why)
	}
	g.levels.Live = 0
	for _, s := range g.sessionsLocked() {
		delete(s.grants, g)
		if why != relock.ErrNotHeld { //nolint:errorlint // our own reason; after an Unlock the release comes first
			s.retireLocked()
		}
	}
}

// sessionsLocked are those that the key may stand under.
func (g *grant) sessionsLocked() []*session {
	if g.also == nil {
		return []*session{g.session}
	}
	return []*session{g.session, g.also}
}

// lose ends a grant whose key is gone, and tells the log.
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
	l.logger.Warn("relock: lock lost", "key", g.name, "reason", why.Error())
	l.clean(r)
}

// endLocked ends the level. An Unlock reports its own end; a loss is reported on
// a goroutine, since the mutex is held.
func (h *level) endLocked(why error) {
	if h.ends.Over() != nil {
		return
	}
	h.report.Ended()
	h.ends.End(why)
	if why != relock.ErrNotHeld && h.report.Set("hold", why) { //nolint:errorlint // our own reason
		h.grant.locker.tasks.Start(h.report.Tell) // Close waits for it
	}
}

// Key returns the name of the lock.
func (h *level) Key() string { return h.grant.name }

// Fence returns the create revision of the hold's key: larger than that of any hold of the lock before.
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

// state is why the hold is over by the clock of now, or nil.
func (h *level) state() error {
	h.grant.locker.mu.Lock()
	defer h.grant.locker.mu.Unlock()
	_ = h.grant.checkLocked() // ends the levels when the time has come
	return h.ends.Over()
}

func (h *level) ValidUntil() time.Time {
	g := h.grant
	g.locker.mu.Lock()
	defer g.locker.mu.Unlock()
	_ = g.checkLocked()
	if h.ends.Over() != nil {
		return time.Time{}
	}
	return g.untilLocked()
}

// untilLocked is the end of the belief in the grant.
func (g *grant) untilLocked() time.Time {
	if g.also != nil && g.also.until.Before(g.session.until) {
		return g.also.until
	}
	return g.session.until
}

// Unlock ends the level, and with the last one the hold. ctx gives values only.
func (h *level) Unlock(ctx context.Context) error {
	if ctx == nil {
		ctx = context.Background() // the hold is to end, whatever else is wrong
	}
	h.report.Ended()
	last, err := h.leave()
	if err != nil {
		return wrap("unlock", h.grant.name, err) // it was over before
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

// leaveLocked ends the level here. It returns the removal of the key when it was the last one of a live grant.
func (h *level) leaveLocked() (last *removal, err error) {
	if h.unlocked {
		return nil, relock.ErrNotHeld
	}
	h.unlocked = true
	h.grant.dropLocked(h)
	if over := h.ends.Over(); over != nil {
		return nil, errs.Gone(over)
	}
	h.endLocked(relock.ErrNotHeld)
	h.grant.levels.Live--
	if h.grant.levels.Live > 0 {
		return nil, nil
	}
	last = h.grant.removalLocked() // before the grant ends: one of them keeps the session
	h.grant.endLocked(relock.ErrNotHeld)
	return last, nil
}

// dropLocked takes an unlocked level off. With the last one the owner is without a grant.
func (g *grant) dropLocked(h *level) {
	if last := g.levels.Drop(h); last && g.owner != nil {
		g.owner.grant = nil
		g.locker.exitLocked(g.owner)
	}
}

// Extend makes the lease last at least d from now. Beyond the Locker's TTL the hold gets a lease of its own, which is as
// long and is kept alive like the other: should the process die, the lock is free when that has ended.
func (h *level) Extend(ctx context.Context, d time.Duration) error {
	return wrap("extend", h.grant.name, h.extend(ctx, d))
}

func (h *level) extend(ctx context.Context, d time.Duration) error {
	switch {
	case ctx == nil:
		return errNilContext
	case d > maxTTL:
		return fmt.Errorf("%w: Extend: %v is more than %v", relock.ErrInvalid, d, maxTTL)
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

// String keeps ids out of whatever prints a hold.
func (h *level) String() string { return "hold of " + strconv.Quote(h.grant.name) }

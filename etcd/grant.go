package etcdlock

import (
	"context"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
)

// grant is one hold in etcd: its key, its session, and the levels that share
// it. Its validity is that of its session.
type grant struct {
	place
	holders       *holders
	began         time.Time
	rev           int64    // create revision of the key
	indeterminate bool     // a request for the key was never answered
	origin        *session // the session of these requests
	owner         *owner   // nil if the call named none
	moving        turn     // held by the Extend that moves the key to another lease

	// Guarded by sessions.mu.
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
	report *holds.Report   // for the observer; nil if there is none

	// Guarded by sessions.mu.
	ends     holds.Contexts
	unlocked bool
}

// pushLocked adds a level.
func (g *grant) pushLocked(ctx context.Context) *level {
	report := holds.NewReport(ctx, g.holders.config.holdDone(), nil, g.name, kind, time.Now())
	h := &level{grant: g, values: ctx, report: report}
	g.levels.Push(h)
	return h
}

// deeperLocked adds a level, unless the grant was lost.
func (g *grant) deeperLocked(ctx context.Context) (*level, error) {
	if err := g.checkLocked(); err != nil {
		return nil, errs.ForLevel(err)
	}
	return g.pushLocked(ctx), nil
}

// checkLocked ends the grant if it is no longer valid by the clocks. It returns
// why the grant has ended, or nil.
func (g *grant) checkLocked() error {
	if g.over == nil {
		_ = g.session.checkLocked()
	}
	if g.over == nil && g.also != nil {
		_ = g.also.checkLocked()
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
	if g.holders.held[g.name] == g {
		delete(g.holders.held, g.name)
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

func (g *grant) untilLocked() time.Time {
	if g.also != nil && g.also.until.Before(g.session.until) {
		return g.also.until
	}
	return g.session.until
}

// lose ends a grant whose key is gone, and logs the loss.
func (g *grant) lose(why error) {
	g.holders.mu.Lock()
	if g.over != nil {
		g.holders.mu.Unlock()
		return
	}
	g.endLocked(why)
	r := g.removalLocked()
	g.holders.mu.Unlock()
	g.holders.logger.Warn("relock: lock lost", "key", g.name, "kind", kind, "reason", why.Error())
	r.clean()
}

// removalLocked returns the removal of the grant's key, by its create revision.
func (g *grant) removalLocked() *removal {
	r := g.holders.newRemovalLocked(g.place, g.origin, g.sessionsLocked()...)
	r.owned = g.byRevision(g.rev)
	if g.indeterminate {
		r.cancel = g.holders.cancelKey(g.hold)
	}
	return r
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
		h.grant.holders.tasks.Start(h.report.Notify) // Close waits for it
	}
}

// leave ends the level in this process. It returns the removal of the key if it
// was the last level of a live grant.
func (h *level) leave() (last *removal, err error) {
	h.grant.holders.mu.Lock()
	defer h.grant.holders.mu.Unlock()
	_ = h.grant.checkLocked() // the clock decides, not whether a timer has fired
	if h.unlocked {
		return nil, relock.ErrNotHeld
	}
	h.unlocked = true
	h.grant.dropLocked(h)
	if over := h.ends.Err(); over != nil {
		return nil, errs.NotHeld(over)
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
		g.holders.exitLocked(g.owner)
	}
}

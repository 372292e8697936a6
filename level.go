package relock

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// level is the Hold of one Lock: the only one of its lease, or one of several
// of a reentrant lock.
type level struct {
	lease    *lease
	values   context.Context // what Context is made from
	settings *lockspec.Spec
	maxHold  *maxHold  // nil when there is none
	fence    int64     // 0 without fencing
	seen     *sighting // by an observer; nil when there is none

	// Guarded by lease.mu.
	watched  bool
	unlocked bool
	lost     error                     // the answer to the Unlock that found it lost, or the client closed; nil for any other
	over     error                     // why the level ended; nil while it is held
	ctx      context.Context           // nil until it is asked for
	cancels  []context.CancelCauseFunc // of the contexts that end with the level
}

// maxHold is the end of a level's maximum hold, and the timer for it.
type maxHold struct {
	*time.Timer
	end time.Time
}

// push adds a level for a request that was granted, unless it is over already.
// mu is not held.
func (l *lease) push(ctx context.Context, sent time.Time, s *lockspec.Spec) (*level, error) {
	now := time.Now()
	l.look(now)
	return l.pushAt(ctx, sent, now, s)
}

// pushAt is push at now, after a look.
func (l *lease) pushAt(ctx context.Context, sent, now time.Time, s *lockspec.Spec) (*level, error) {
	l.mu.Lock()
	if l.over != nil {
		defer l.mu.Unlock()
		return nil, l.over
	}
	h := l.add(ctx, sent, s)
	l.mu.Unlock()
	if s.Watched {
		l.renewer().Add(l.job, l.renewAt(sent))
	}
	return h.given(sent, now)
}

// given is the level for its caller, unless it is over already. Only what
// somebody gets is kept for its minimum hold.
func (h *level) given(sent, now time.Time) (*level, error) {
	h.tick(now)
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.over != nil {
		if len(l.levels) > 1 {
			l.drop(h)
		}
		if errors.Is(h.over, errs.ErrMaxHold) {
			return nil, errLate
		}
		return nil, h.over
	}
	if l.parts != nil {
		l.parts.won.Store(true)
	}
	if h.settings.MinHold > 0 {
		l.keep = later(l.keep, sent.Add(h.settings.MinHold))
	}
	return h, nil
}

// unused says that the caller had no use for what it got: it is not kept.
func (l *lease) unused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep = time.Time{}
	if l.parts != nil {
		l.parts.won.Store(false)
	}
}

// add is push with mu held, of a lease that is renewed already.
func (l *lease) add(ctx context.Context, sent time.Time, s *lockspec.Spec) *level {
	h := &level{lease: l, values: ctx, settings: s, watched: s.Watched, fence: l.tokens.Fence, seen: l.client.sighting(ctx, l.key, s.KindName())}
	l.levels = append(l.levels, h)
	l.live++
	if s.Kind.Writes {
		l.writes++
	}
	if h.watched {
		l.watch(h.settings.Lease)
	}
	if s.MaxHold > 0 {
		end := sent.Add(s.MaxHold)
		h.maxHold = &maxHold{time.AfterFunc(time.Until(end), h.expire), end}
	}
	return h
}

// Key returns the name of the lock.
func (h *level) Key() string { return h.lease.key }

// covers reports whether the hold is one of this key, maybe among others.
func (h *level) covers(key string) bool { return h.lease.covers(key) }

// family returns how the lock is stored, and who owns it.
func (h *level) family() lockspec.Family { return h.lease.family() }

// owner returns the id of the owner, "" for a lock without one.
func (h *level) owner() string {
	if h.lease.owner == nil {
		return ""
	}
	return h.lease.owner.key.id
}

// announce tells the observer of the hold's end, now that its grant is known.
func (h *level) announce() { h.seen.reveal() }

// unused says that the caller had no use for the hold: it is not kept.
func (h *level) unused() { h.lease.unused() }

func (h *level) Fence() int64 { return h.fence }

func (h *level) Context() context.Context {
	h.lease.mu.Lock()
	made := h.ctx
	h.lease.mu.Unlock()
	if made != nil {
		return made
	}
	ctx, cancel := context.WithCancelCause(carried.WithHold(context.WithoutCancel(h.values), h)) // asks the caller's context, which may have locks of its own
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	if h.ctx != nil {
		cancel(nil) // another call was quicker
		return h.ctx
	}
	h.ctx = ctx
	h.ends(cancel)
	return h.ctx
}

// ends makes cancel part of the level's end, which may have been; mu is held.
func (h *level) ends(cancel context.CancelCauseFunc) {
	if h.over != nil {
		cancel(h.over)
		return
	}
	h.cancels = append(h.cancels, cancel)
}

// work is the context of Do's function: it ends with ctx and with the level,
// for the reason of whichever was first.
func (h *level) work(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(carried.WithHold(ctx, h))
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.ends(cancel)
	return ctx, cancel
}

// state is why the hold is over by the clock of now, or nil.
func (h *level) state() error {
	now := time.Now()
	h.lease.look(now)
	h.tick(now)
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return h.over
}

// tick ends the level, or its lease, when the time has come.
func (h *level) tick(now time.Time) {
	_ = h.lease.checkAt(now)
	if h.maxHold != nil && !now.Before(h.maxHold.end) {
		h.expire()
	}
}

func (h *level) ValidUntil() time.Time {
	if h.state() != nil {
		return time.Time{}
	}
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	if h.maxHold != nil && h.maxHold.end.Before(h.lease.until) {
		return h.maxHold.end
	}
	return h.lease.until
}

func (h *level) extend(ctx context.Context, d time.Duration) error {
	var m lockspec.Problems
	m.CheckMillis("Extend", d)
	m.Check(ctx != nil, "context: is nil")
	if err := m.Err(); err != nil {
		return err
	}
	if err := h.state(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errs.EndOf(ctx, nil)
	}
	if parts := h.lease.parts; parts != nil {
		return parts.extend(ctx, h, d)
	}
	return h.renew(ctx, d)
}

// renew asks the server for a lease of d from now on.
func (h *level) renew(ctx context.Context, d time.Duration) error {
	if err := h.lengthen(d); err != nil {
		return err
	}
	l := h.lease
	o, _ := l.ask(ctx, h.settings, l.protocol.renew(d))
	o.Err = driver.Ended(ctx, o.Err)
	defer l.tellRenewal(o) // what follows from the answer comes first
	switch {
	case o.Err != nil:
		return o.Err
	case o.Reply != int64(script.Ours):
		_ = l.refused()
		return h.state() // the level may have ended before
	}
	if err := l.believe(o.Sent, d); err != nil {
		return err
	}
	return h.state() // it may have been unlocked meanwhile, and the lease passed on
}

// end marks the level as over and ends its context; mu is held.
func (h *level) end(why error) {
	if h.over != nil {
		return
	}
	h.over = why
	h.seen.ended()
	if h.settings.Kind.Writes {
		h.lease.writes--
	}
	if h.watched {
		h.lease.unwatch(h.settings.Lease)
	}
	for _, cancel := range h.cancels {
		cancel(why)
	}
	h.cancels = nil
	if h.maxHold != nil {
		h.maxHold.Stop()
	}
}

var errMaxHold = errs.Both(errs.ErrMaxHold, errs.ErrLockLost)

// expire ends the level when its maximum hold is over. Other levels go on.
func (h *level) expire() {
	l := h.lease
	l.mu.Lock()
	if h.over != nil {
		l.mu.Unlock()
		return
	}
	if l.live == 1 {
		follow := l.loseLocked(errMaxHold)
		l.mu.Unlock()
		follow()
		return
	}
	h.end(errMaxHold)
	l.live--
	l.mu.Unlock()
	h.seen.report("hold", errMaxHold)
	l.client.tasks.Start(l.adjust)
}

// adjust tells the server how many levels are left, in the background.
func (l *lease) adjust() {
	l.turn.take()
	defer l.turn.give()
	if l.check() == nil {
		l.client.retrier.Retry(l.cleanup(script.Indeterminate{}))
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

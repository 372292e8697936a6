package lease

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
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

// maxHold is the end of a level's maximum hold, and the timer for it.
type maxHold struct {
	*time.Timer
	end time.Time
}

// push adds a level for a request that was granted, unless it is over already.
// mu is not held.
func (l *Lease) push(ctx context.Context, sent time.Time, s *lockspec.Spec) (*Hold, error) {
	now := time.Now()
	l.checkSuspended(now)
	return l.pushAt(ctx, sent, now, s)
}

// pushAt is push at now, after a look.
func (l *Lease) pushAt(ctx context.Context, sent, now time.Time, s *lockspec.Spec) (*Hold, error) {
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
func (h *Hold) given(sent, now time.Time) (*Hold, error) {
	h.tick(now)
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.ends.Over() != nil {
		if len(l.levels.All) > 1 {
			l.drop(h)
		}
		if errors.Is(h.ends.Over(), errs.ErrMaxHold) {
			return nil, ErrLate
		}
		return nil, h.ends.Over()
	}
	if l.group != nil {
		l.group.returned.Store(true)
	}
	if h.settings.MinHold > 0 {
		l.keep = later(l.keep, sent.Add(h.settings.MinHold))
	}
	return h, nil
}

// unused says that the caller had no use for what it got: it is not kept.
func (l *Lease) unused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep = time.Time{}
	if l.group != nil {
		l.group.returned.Store(false)
	}
}

// add is push with mu held, of a lease that is renewed already.
func (l *Lease) add(ctx context.Context, sent time.Time, s *lockspec.Spec) *Hold {
	h := &Hold{lease: l, values: ctx, settings: s, watched: s.Watched, fence: l.tokens.Fence, report: holds.NewReport(ctx, l.client.Hooks.HoldDone, l.key, s.KindName())}
	l.levels.Push(h)
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

// Extend makes the lease last at least d from now, and never shortens it.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	var m lockspec.Problems
	m.CheckMillis("Extend", d)
	m.Check(ctx != nil, "context: is nil")
	if err := m.Err(); err != nil {
		return err
	}
	if err := h.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errs.EndOf(ctx, nil)
	}
	if parts := h.lease.group; parts != nil {
		return parts.extend(ctx, h, d)
	}
	return h.renew(ctx, d)
}

// renew asks the server for a lease of d from now on.
func (h *Hold) renew(ctx context.Context, d time.Duration) error {
	if err := h.lengthen(d); err != nil {
		return err
	}
	l := h.lease
	o, _ := l.ask(ctx, h.settings, l.protocol.Renew(d))
	o.Err = driver.Ended(ctx, o.Err)
	defer l.tellRenewal(o) // what follows from the answer comes first
	switch {
	case o.Err != nil:
		return o.Err
	case o.Reply != int64(script.Ours):
		_ = l.refused()
		return h.Err() // the level may have ended before
	}
	if err := l.extendValidity(o.Sent, d); err != nil {
		return err
	}
	return h.Err() // it may have been unlocked meanwhile, and the lease passed on
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

var errMaxHold = errs.Both(errs.ErrMaxHold, errs.ErrLockLost)

// expire ends the level when its maximum hold is over. Other levels go on.
func (h *Hold) expire() {
	l := h.lease
	l.mu.Lock()
	if h.ends.Over() != nil {
		l.mu.Unlock()
		return
	}
	if l.levels.Live == 1 {
		follow := l.loseLocked(errMaxHold)
		l.mu.Unlock()
		follow()
		return
	}
	h.end(errMaxHold)
	l.levels.Live--
	l.mu.Unlock()
	h.report.Done("hold", errMaxHold)
	l.client.Tasks.Start(l.adjust)
}

// adjust tells the server how many levels are left, in the background.
func (l *Lease) adjust() {
	l.turn.take()
	defer l.turn.give()
	if l.check() == nil {
		l.client.Retrier.Retry(l.cleanup(script.Indeterminate{}))
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

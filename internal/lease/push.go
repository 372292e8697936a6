package lease

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// push adds a level for a granted request, unless the lease has already ended;
// mu must not be held.
func (l *Lease) push(ctx context.Context, sent time.Time, s *lockspec.Spec) (*Hold, error) {
	now := time.Now()
	l.checkSuspended(now)
	return l.pushAt(ctx, sent, now, s)
}

// pushAt is push at now, for a caller that has checked for a suspend.
func (l *Lease) pushAt(ctx context.Context, sent, now time.Time, s *lockspec.Spec) (*Hold, error) {
	l.mu.Lock()
	if l.over != nil {
		defer l.mu.Unlock()
		return nil, l.over
	}
	h := l.add(ctx, sent, now, s)
	claiming := l.claiming() != nil
	l.mu.Unlock()
	switch {
	case claiming:
		l.renewer().AddEarlier(&l.job, now)
	case s.Watched:
		l.renewer().Add(&l.job, l.renewAt(sent))
	}
	l.recheckNow() // after Add, which may have made it due later
	return h.given(sent, now)
}

// given returns h to the caller unless it has already ended. Only a hold that a
// caller gets is kept for its minimum hold.
func (h *Hold) given(sent, now time.Time) (*Hold, error) {
	h.tick(now)
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.ends.Err() != nil {
		if len(l.levels.All) > 1 {
			l.drop(h)
		}
		if errors.Is(h.ends.Err(), errs.ErrMaxHold) {
			return nil, ErrLate
		}
		return nil, h.ends.Err()
	}
	if l.group != nil {
		l.group.returned.Store(true)
	}
	if h.settings.MinHold > 0 {
		l.keep = max(l.keep, sent.Add(h.settings.MinHold).Sub(l.client.expiry.start))
	}
	return h, nil
}

// unused notes that the caller had no use for the hold. The key is then not
// kept for the minimum hold, unless another level uses the lease.
func (l *Lease) unused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.levels.Live > 1 {
		return
	}
	l.keep = 0
	if l.group != nil {
		l.group.returned.Store(false)
	}
}

// add is push with mu held. It does not schedule the renewal.
func (l *Lease) add(ctx context.Context, sent, granted time.Time, s *lockspec.Spec) *Hold {
	h := &l.first
	if h.lease != nil { // it was granted before
		h = &Hold{}
	}
	*h = Hold{
		lease: l, values: ctx, settings: s, watched: s.Watched, fence: l.tokens.Fence,
		report: l.client.Hooks.report(ctx, l.key, s.KindName(), granted),
	}
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

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

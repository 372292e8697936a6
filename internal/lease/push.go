package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// push adds a level for a granted request, unless the lease has already ended;
// Mu must not be held.
func (l *Lease) push(ctx context.Context, sent time.Time, s *lockspec.Spec) (*Hold, error) {
	now := time.Now()
	l.checkSuspended(now)
	return l.pushAt(ctx, sent, now, s)
}

// pushAt is push at now, for a caller that has checked for a suspend.
func (l *Lease) pushAt(ctx context.Context, sent, now time.Time, s *lockspec.Spec) (*Hold, error) {
	l.Mu.Lock()
	if l.Over() != nil {
		defer l.Mu.Unlock()
		return nil, l.Over()
	}
	h := l.add(ctx, sent, now, s)
	claiming := l.claim != nil
	l.Mu.Unlock()
	switch {
	case claiming:
		l.RunNow(now)
	case s.Watched:
		l.Schedule(sent)
	default:
		marked{l}.plan(now)
	}
	l.RecheckNow() // after Add, which may have made it due later
	return l.give(h, sent, now)
}

// give returns h to the caller unless it has already ended. Only a hold that a
// caller gets is kept for its minimum hold.
func (l *Lease) give(h *Hold, sent, now time.Time) (*Hold, error) {
	h.tick(now)
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err := h.refusal(); err != nil {
		if len(l.levels.All) > 1 {
			l.drop(h)
		}
		return nil, err
	}
	if h.settings.MinHold > 0 {
		l.minHoldUntil = max(l.minHoldUntil, l.client.Count(sent.Add(h.settings.MinHold)))
	}
	return h, nil
}

// unused notes that the caller had no use for the hold. The key is then not
// kept for the minimum hold, unless another level uses the lease.
func (l *Lease) unused() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.levels.Live <= 1 {
		l.minHoldUntil = 0
	}
}

// add is push with Mu held. It does not schedule the renewal.
func (l *Lease) add(ctx context.Context, sent, granted time.Time, s *lockspec.Spec) *Hold {
	h := &l.firstHold
	if h.grant != nil { // it was granted before
		h = &Hold{}
	}
	h.begin(ctx, l, sent, granted, s, l.tokens.Fence)
	l.levels.Push(h)
	if s.Kind.Writes {
		l.writes++
	}
	if h.watched {
		l.Watch(h.settings.Lease)
	}
	return h
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

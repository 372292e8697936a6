package lease

import (
	"context"
	"time"

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
	claiming := l.claim != nil
	l.mu.Unlock()
	switch {
	case claiming:
		l.renewer().AddEarlier(&l.job, now)
	case s.Watched:
		l.renewer().Add(&l.job, l.renewAt(sent))
	}
	l.recheckNow() // after Add, which may have made it due later
	return l.give(h, sent, now)
}

// give returns h to the caller unless it has already ended. Only a hold that a
// caller gets is kept for its minimum hold.
func (l *Lease) give(h *Hold, sent, now time.Time) (*Hold, error) {
	h.tick(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := h.refusal(); err != nil {
		if len(l.levels.All) > 1 {
			l.drop(h)
		}
		return nil, err
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
	if l.levels.Live <= 1 {
		l.keep = 0
	}
}

// add is push with mu held. It does not schedule the renewal.
func (l *Lease) add(ctx context.Context, sent, granted time.Time, s *lockspec.Spec) *Hold {
	h := &l.first
	if h.grant != nil { // it was granted before
		h = &Hold{}
	}
	h.begin(ctx, l, sent, granted, s, l.tokens.Fence)
	l.levels.Push(h)
	if s.Kind.Writes {
		l.writes++
	}
	if h.watched {
		l.watch(h.settings.Lease)
	}
	return h
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

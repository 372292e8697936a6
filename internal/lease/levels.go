package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// begin registers a new lease with the manager, and returns its first hold. It
// fails if the client was closed. It also fails if the lease or the maximum
// hold has already ended, and then releases the key.
func (l *Lease) begin(ctx context.Context, sent time.Time, s *lockspec.Spec) (*Hold, error) {
	now, err := l.Start(byMessage{l}.requested(sent))
	if err != nil {
		return nil, err
	}
	h, err := l.pushAt(ctx, sent, now, s)
	return h, tooLate(err)
}

// isAdopted reports whether begin registered the lease with the manager, so
// that Close ends it.
func (l *Lease) isAdopted() bool {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.Over() != nil || l.levels.Live > 0
}

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

// add is push with Mu held. It does not schedule the renewal.
func (l *Lease) add(ctx context.Context, sent, granted time.Time, s *lockspec.Spec) *Hold {
	h := l.levels.next()
	h.begin(ctx, l, sent, granted, s, l.tokens.Fence)
	l.levels.Push(h)
	if h.settings.Watched {
		l.Watch(h.settings.Lease)
	}
	return h
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

// drop removes an unlocked level; Mu must be held. After the last one the owner
// has no lease.
func (l *Lease) drop(h *Hold) {
	if last := l.levels.Drop(h); last && l.owner != nil {
		l.owner.lease = nil
		l.owner.Exit()
	}
}

// levelEnded notes that a level has ended; Mu must be held.
func (l *Lease) levelEnded(h *Hold) {
	if h.settings.Watched {
		l.unwatch(h.settings.Lease)
	}
}

// unwatch undoes watch for a level that has ended, or is no longer renewed; Mu
// must be held. Levels that want the longest lease are counted, so that the
// others are examined only once the last of these is gone.
func (l *Lease) unwatch(length time.Duration) {
	if !l.Unwatch(length) {
		return
	}
	for _, h := range l.levels.All {
		if h.settings.Watched && h.ends.Err() == nil {
			l.Watch(h.settings.Lease)
		}
	}
}

// levelExpired ends a level whose maximum hold has ended; Mu must be held.
// Other levels go on. The server counts the levels of a hold only if it has an
// owner.
func (l *Lease) levelExpired(h *Hold, why error) (follow func()) {
	if l.levels.Live == 1 {
		return l.LoseLocked(why)
	}
	h.end(time.Now(), why)
	l.levels.Live--
	return func() {
		h.report.Done("hold", why)
		if l.owner != nil {
			l.client.Tasks.Start(releaser{l}.adjust)
		}
	}
}

// tooLate returns the error for a first hold that ended with over before a
// caller got it. It returns ErrLate, except that nil and ErrClosed stay as they
// are.
func tooLate(over error) error {
	if over == nil || over == errs.ErrClosed { //nolint:errorlint // our own sentinel
		return over
	}
	return ErrLate
}

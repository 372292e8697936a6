package relocktest

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lockspec"
)

// grant is one time of a lock with a holder, and the levels that share it. The
// mutex of the Locker must be held for all methods.
type grant struct {
	lock     *lock
	since    time.Time
	extended time.Time // valid until, as Extend has set it; zero if it has not
	fence    int64
	expiry   *time.Timer // ends a fixed lease; nil if the lease is renewed
	levels   holds.Levels[*hold]
	over     error // why it ended; nil while it is live
}

// grantLocked makes a call with this context the holder.
func (k *lock) grantLocked(ctx context.Context) *hold {
	l := k.locker
	g := &grant{lock: k, since: time.Now()}
	if l.settings.Fencing {
		l.tokens++
		g.fence = l.tokens
	}
	if !l.settings.Watched {
		g.expiry = time.AfterFunc(time.Until(g.untilLocked()), g.expire)
	}
	k.holder = g
	return g.pushLocked(ctx)
}

// untilLocked returns the time until which the grant is valid. A watched lease
// was renewed every third of its length.
func (g *grant) untilLocked() time.Time {
	s, renewed := &g.lock.locker.settings, g.since
	if s.Watched {
		third := s.Lease / 3
		renewed = renewed.Add(time.Since(g.since) / third * third)
	}
	until := renewed.Add(s.Lease - lockspec.Drift(s.Lease))
	if g.extended.After(until) {
		return g.extended
	}
	return until
}

// expire is called by the timer of a fixed lease.
func (g *grant) expire() {
	g.lock.locker.mu.Lock()
	defer g.lock.locker.mu.Unlock()
	if g.over == nil && !g.checkedLocked() {
		g.expiry.Reset(time.Until(g.untilLocked())) // it was extended
	}
}

// checkedLocked ends a fixed lease whose time has come. It reports whether the
// grant has ended.
func (g *grant) checkedLocked() bool {
	if g.over == nil && !time.Now().Before(g.untilLocked()) {
		g.endLocked(errs.LeaseOver)
		g.lock.freeLocked(g.keepLocked())
	}
	return g.over != nil
}

func (g *grant) keepLocked() time.Time { return g.since.Add(g.lock.locker.settings.MinHold) }

// endLocked ends the grant and its levels. The caller frees the lock.
func (g *grant) endLocked(why error) {
	g.over = why
	if g.expiry != nil {
		g.expiry.Stop()
	}
	for _, h := range g.levels.All {
		h.endLocked(why)
	}
	g.levels.Live = 0
}

// loseLocked ends the grant as if the server had forgotten the lock. A minimum
// hold is forgotten too.
func (g *grant) loseLocked() {
	g.endLocked(errs.Vanished)
	g.lock.holder = nil
}

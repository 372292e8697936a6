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
	renewed  time.Time // a watched lease is renewed from here every third of it
	extended time.Time // valid until, as Extend has set it; zero if it has not
	fence    int64
	expiry   *time.Timer // ends a lease that is not renewed; nil while it is
	levels   holds.Levels[*hold]
	over     error // why it ended; nil while it is live
}

// grantLocked makes a call with this context, by these callers, the holder.
func (k *lock) grantLocked(ctx context.Context, by stack) *hold {
	l := k.locker
	g := &grant{lock: k, since: time.Now()}
	g.renewed = g.since
	if l.settings.Fencing {
		l.tokens++
		g.fence = l.tokens
	}
	if !l.settings.Watched {
		g.expiry = time.AfterFunc(time.Until(g.untilLocked()), g.expire)
	}
	k.holder = g
	return g.pushLocked(ctx, by)
}

// untilLocked returns the time until which the grant is valid.
func (g *grant) untilLocked() time.Time {
	lease := g.lock.locker.settings.Lease
	until := g.renewedLocked().Add(lease - lockspec.Drift(lease))
	if g.extended.After(until) {
		return g.extended
	}
	return until
}

// renewedLocked returns when the lease was renewed last.
func (g *grant) renewedLocked() time.Time {
	l := g.lock.locker
	if !l.settings.Watched || l.down > 0 {
		return g.renewed
	}
	third := l.settings.Lease / 3
	return g.renewed.Add(time.Since(g.renewed) / third * third)
}

// expire is called by the timer of a lease that is not renewed.
func (g *grant) expire() {
	g.lock.locker.mu.Lock()
	defer g.lock.locker.mu.Unlock()
	if g.expiry != nil && g.over == nil && !g.checkedLocked() {
		g.expiry.Reset(time.Until(g.untilLocked())) // it was extended
	}
}

// checkedLocked ends a lease whose time has come. It reports whether the
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

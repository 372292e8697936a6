package lease

import (
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/validity"
)

// endHolds ends all grants with ErrClosed. It returns the leases whose keys are
// still to be released. These include RedLock members that the Close of another
// client has ended: it leaves their keys to this Close.
func endHolds(grants []*validity.Renewal) (held []*Lease) {
	for _, r := range grants {
		why := r.Check()
		if l, ok := r.Grant().(*Lease); ok && (why == nil || why == errs.ErrClosed) { //nolint:errorlint // our own sentinel
			held = append(held, l)
		}
	}
	for _, r := range grants {
		r.Lose(errs.ErrClosed)
	}
	return held
}

// warnOfHeld logs the locks that Close leaves in Redis.
func (m *Manager) warnOfHeld(held []*Lease) {
	var keys []string
	var last time.Time
	for _, l := range held {
		keys = append(keys, l.Name)
		last = later(last, expiryOf(l))
	}
	holds.WarnOfHeld(m.Logger, keys, last)
}

// expiryOf returns when the key of a lease expires at the server, if no later
// request is under way.
func expiryOf(l *Lease) time.Time {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return later(l.Until().Add(lockspec.Drift(l.Settings.Lease)), l.keptUntil())
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// giveAllBack cancels the queue entries, sends the releases that the retrier
// has left, and releases the leases that Close has ended. It uses dedicated
// connections, because the workers send nothing any more. It takes at most as
// long as one command may. A key whose release is not answered by then stays
// until its lease ends.
func (m *Manager) giveAllBack(waits []script.Call, leases []*Lease) {
	leases = append(leases, unfinished(m.Local)...)
	half := time.Now().Add(m.CommandTimeout / 2)
	end := half.Add(m.CommandTimeout / 2)
	links := background.NewLinks(m.Driver, end)
	defer links.Close()
	links.SendUntil(half, waits) // first, or locks would go to calls that have ended
	// After unfinished, because a transfer may move from transit to the
	// retrier.
	m.Retrier.SendLast(half, links)
	for i, o := range links.SendUntil(end, lastReleases(leases)) {
		if o.Err != nil || (!script.IsOurs(o.Reply) && o.Reply != int64(script.Forced)) {
			m.Logger.Warn("relock: closed before a lock was released", leases[i].About()...)
		}
	}
}

// sendLast sends the releases that the retrier has left, once more: their
// callers have returned without the lock. It takes lastMoment at most.
func (m *Manager) sendLast() {
	end := time.Now().Add(lastMoment)
	links := background.NewLinks(m.Driver, end)
	defer links.Close()
	m.Retrier.SendLast(end, links)
}

// lastMoment is what Close without WithReleaseOnClose has for a request. It
// must end within 100 ms, also if Redis is stopped.
const lastMoment = 40 * time.Millisecond

// lastReleases returns the requests that release the leases with all their
// levels.
func lastReleases(leases []*Lease) (all []script.Call) {
	for _, l := range leases {
		l.Mu.Lock()
		last := releaser{l}.change(0)
		all = append(all, last.call(time.Now()))
		l.Mu.Unlock()
	}
	return all
}

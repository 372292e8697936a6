package lease

import (
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/script"
)

// Ended ends the holds of a lease that was lost before its Unlock; Mu must be
// held. The key is released, so that others need not wait until it expires.
func (l *Lease) Ended(why error) (follow func()) {
	l.memberOf.noteEnd(why)
	var seen []*holds.Report
	now := time.Now()
	for _, h := range l.levels.All {
		if h.ends.Err() == nil && h.report != nil {
			seen = append(seen, h.report)
		}
		h.end(now, why)
	}
	if l.levels.Live > 0 && why != errs.ErrClosed { //nolint:errorlint // our own sentinel
		l.client.Losses.Add(1)
	}
	l.levels.Live = 0
	doubts, claim := byMessage{l}.doubts(), l.claim
	return func() {
		// First, because after the release others may have the key.
		report := l.memberOf.recompute()
		defer report()
		l.leave()
		claim.forget()
		for _, s := range seen {
			defer s.Done("hold", why)
		}
		l.endRetained(why)
		defer l.memberOf.lost(l, why)
		if why == errs.ErrClosed { //nolint:errorlint // our own sentinel
			return // the connections are being closed
		}
		// First, because a log handler may take long.
		job := l.cleanup(doubts)
		job.Quiet = true // the loss is logged
		l.client.Retrier.Retry(job)
	}
}

// cleanup returns a background release that leaves the live levels, if there
// are any.
func (l *Lease) cleanup(d script.Indeterminate) *background.Release {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.seq++
	job := l.newCleanup(d, l.releaseCall(l.levels.Live, l.seq).again())
	if l.levels.Live > 0 {
		job.Lost = func() { l.endWithNotice(job.Answer.Reply) }
	}
	return job
}

// endWithNotice ends the lease after the reply to a background release has said
// that it is no longer ours.
func (l *Lease) endWithNotice(reply any) {
	l.EndBy(time.Now().Add(l.client.Limits.Notice)) // however long the task waits
	l.client.Tasks.Start(func() { _ = l.refused(reply) })
}

// newCleanup returns a background release; Mu must be held. A late copy of the
// acquire may take the key again, or enqueue its entry again. So after the
// first answer the entry is cancelled instead.
func (l *Lease) newCleanup(d script.Indeterminate, release func(time.Time) script.Call) *background.Release {
	job := background.NewRelease(l.Name, l.maxRequested, l.Settings.Lease, d, release)
	if l.undo != nil && d.Exists() {
		job.Call = func(now time.Time) script.Call {
			if job.IsAnswered() {
				return l.undo(now)
			}
			return release(now)
		}
	}
	return job
}

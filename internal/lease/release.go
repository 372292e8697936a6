package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// releaser is a lease as far as its release goes: what ends the hold at the
// server, or leaves some levels of it.
type releaser struct{ *Lease }

// change returns the next change of the levels, and counts it. If none are
// left, the key stays for its minimum hold; Mu must be held.
func (l releaser) change(left int) change {
	return l.remote.change(Levels{left, l.levels.writes()}, l.keptUntil(), l.of)
}

// send sends the number of remaining levels to the server.
func (l releaser) send(levels int, start time.Time) error {
	l.Mu.Lock()
	release, doubts := l.change(levels), l.doubts()
	l.Mu.Unlock()
	send := func(limit driver.Limits) (driver.Result, script.Indeterminate) {
		o, d := l.sendOnce(limit, release.call(start))
		if o.Answered && o.Err == nil && script.MayGoOn(o.Reply) {
			l.client.Retrier.PassOn(release.call(start))
		}
		if o.Answered && o.Err == nil && levels == 0 && !doubts.Last.IsZero() {
			l.repeat(release.again())
		}
		return o, d
	}
	limit := min(l.client.CommandTimeout, l.Settings.Lease/3)
	o, first, err := l.client.Retrier.Confirm(start, limit, send,
		func() *background.Release { return l.job(levels, release.again()) })
	if err != nil {
		return err
	}
	return l.judge(o, levels, first)
}

// sendOnce sends a release, or leaves that to the group of a member.
func (l releaser) sendOnce(limit driver.Limits, release script.Call) (driver.Result, script.Indeterminate) {
	if o, d, sent := l.of.gathered(l.Lease, limit, release); sent {
		return o, d
	}
	return l.client.Eval(context.Background(), limit, release)
}

// repeat sends the last release again, or the cancel of the queue entry, since
// a late copy of the acquire may take the key again.
func (l releaser) repeat(release func(time.Time) script.Call) {
	if l.undo != nil {
		release = l.undo
	}
	l.client.Retrier.Retry(l.job(0, release))
}

// job returns the release in the background. That of the last level also cleans
// up after an indeterminate acquire.
func (l releaser) job(levels int, release func(time.Time) script.Call) *background.Release {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	var d script.Indeterminate
	if levels == 0 {
		d = l.doubts()
	}
	return l.newJob(d, levels, release)
}

// judge returns the result of a release. A release that finds nothing has lost
// the hold, and with it the remaining levels, if any.
func (l releaser) judge(o driver.Result, levels int, first bool) error {
	lost, err := l.Judge(o, first || levels > 0)
	switch {
	case lost:
		return errs.NotHeld(refusal(l).end(o.Reply))
	case err == nil && !first && levels == 0 && !script.IsOurs(o.Reply):
		// An earlier copy has released the hold, or handed it off, and its
		// answer was lost. It may have said that the hold was marked.
		if forced := refusal(l).notice(); forced != nil {
			return errs.NotHeld(forced)
		}
	}
	return err
}

// cleanup returns a background release that leaves the live levels, if there
// are any.
func (l releaser) cleanup(d script.Indeterminate) *background.Release {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.newJob(d, l.levels.Live, l.change(l.levels.Live).again())
}

// newJob returns a background release that leaves some levels; Mu must be held.
// A late copy of the acquire may take the key again, or enqueue its entry
// again. So after the first answer the entry is cancelled instead.
func (l releaser) newJob(d script.Indeterminate, levels int, release func(time.Time) script.Call) *background.Release {
	job := background.NewRelease(l.Name, l.maxRequested, l.Settings.Lease, d, release)
	if l.undo != nil && d.Exists() {
		job.Call = func(now time.Time) script.Call {
			if job.IsAnswered() {
				return l.undo(now)
			}
			return release(now)
		}
	}
	if levels > 0 {
		job.Lost = func() { l.endInBackground(job.Answer.Reply) }
	}
	return job
}

// endInBackground ends the lease after the reply to a background release has
// said that it is no longer ours.
func (l releaser) endInBackground(reply any) {
	l.EndBy(time.Now().Add(l.client.Limits.Notice)) // however long the task waits
	l.client.Tasks.Start(func() { _ = refusal(l).end(reply) })
}

// adjust sends the number of remaining levels to the server, in the background.
func (l releaser) adjust() {
	l.owner.take()
	defer l.owner.give()
	if l.Check() == nil {
		l.client.Retrier.Retry(l.cleanup(script.Indeterminate{}))
	}
}

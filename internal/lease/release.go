package lease

import (
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// sendLevels sends the number of remaining levels to the server.
func (l *Lease) sendLevels(levels int, start time.Time) error {
	l.Mu.Lock()
	l.seq++
	release, doubts := l.releaseCall(levels, l.seq), byMessage{l}.doubts()
	l.Mu.Unlock()
	send := func(limit driver.Limits) (driver.Result, script.Indeterminate) {
		o, d := l.sendRelease(limit, release.call(start))
		if o.Answered && o.Err == nil && script.MayGoOn(o.Reply) {
			l.client.Retrier.PassOn(release.call(start))
		}
		if o.Answered && o.Err == nil && levels == 0 && !doubts.Last.IsZero() {
			l.releaseAgain(release.again())
		}
		return o, d
	}
	limit := min(l.client.CommandTimeout, l.Settings.Lease/3)
	o, first, err := l.client.Retrier.Confirm(start, limit, send,
		func() *background.Release { return l.releaseJob(levels, release.again()) })
	if err != nil {
		return err
	}
	return l.judge(o, levels, first)
}

// releaseAgain repeats the last release, or the cancel of the queue entry,
// since a late copy of the acquire may take the key again.
func (l *Lease) releaseAgain(release func(time.Time) script.Call) {
	if l.undo != nil {
		release = l.undo
	}
	l.client.Retrier.Retry(l.releaseJob(0, release))
}

// releaseJob returns the release in the background. That of the last level also
// cleans up after an indeterminate acquire.
func (l *Lease) releaseJob(levels int, release func(time.Time) script.Call) *background.Release {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	var d script.Indeterminate
	if levels == 0 {
		d = byMessage{l}.doubts()
	}
	job := l.newCleanup(d, release)
	if levels > 0 {
		job.Lost = func() { l.endWithNotice(job.Answer.Reply) }
	}
	return job
}

// judge returns the result of a release. A release that finds nothing has lost
// the hold, and with it the remaining levels, if any.
func (l *Lease) judge(o driver.Result, levels int, first bool) error {
	lost, err := l.Judge(o, first || levels > 0)
	switch {
	case lost:
		return errs.NotHeld(l.refused(o.Reply))
	case err == nil && !first && levels == 0 && !script.IsOurs(o.Reply):
		// An earlier copy has released the hold, or handed it off, and its
		// answer was lost. It may have said that the hold was marked.
		if forced := (refusal{l}).ask(); forced != nil {
			return errs.NotHeld(forced)
		}
	}
	return err
}

// ending is what the release of a lease ends besides its hold, for a lock that
// was handed off in this process, or granted by a message. It never changes.
type ending struct {
	retained string // name of the retained queue entry; "" if there is none
	// Hold that an indeterminate transfer may have made of it, or the
	// reservation that its claim may have left; "" if there is none.
	successor string
}

// leaving is the release that leaves some levels, as it is sent each time.
type leaving struct {
	protocol Protocol
	levels   Levels
	seq      int
	keep     time.Time // the key stays until then if no level is left
	whole    *Group    // nil unless it is of a member
	ending   *ending
}

// releaseCall returns the release that leaves left levels. If none are left,
// the key stays for its minimum hold; Mu must be held.
func (l *Lease) releaseCall(left, seq int) leaving {
	return leaving{l.protocol, Levels{left, int(l.writes)}, seq, l.keptUntil(), l.memberOf, l.ending}
}

// call returns the release as it is sent now.
func (r *leaving) call(now time.Time) script.Call {
	rest := max(0, r.keep.Sub(now)+time.Millisecond-1).Truncate(time.Millisecond) // rounded up
	if !r.whole.isReturned() {
		rest = 0 // nobody got the hold of the group
	}
	s := r.protocol.Release(r.levels, r.seq, rest)
	if r.ending != nil {
		s.Args = append(s.Args, r.ending.retained)
		if r.ending.successor != "" {
			s.Args = append(s.Args, r.ending.successor)
		}
	}
	return s
}

// again returns call for the retrier. It uses a copy, so that a release that is
// sent once stays off the heap.
func (r leaving) again() func(now time.Time) script.Call { return r.call }

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
	l.mu.Lock()
	l.seq++
	release, doubts := l.releaseCall(levels, l.seq), l.doubts()
	l.mu.Unlock()
	send := func(limit driver.Limits) (driver.Result, script.Indeterminate) {
		o, d := l.sendRelease(limit, release.call(start))
		if o.Answered && o.Err == nil && o.Reply == int64(script.More) {
			l.client.Retrier.PassOn(release.call(start))
		}
		if o.Answered && o.Err == nil && levels == 0 && !doubts.Last.IsZero() {
			l.releaseAgain(release.again())
		}
		return o, d
	}
	o, first, err := l.Confirm(start, send, func() *background.Release { return l.releaseJob(levels, release.again()) })
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

// Confirm sends a release, and returns its answer. If first is false, an
// earlier copy may have been executed. Confirm takes at most the command
// timeout, counted from start, and at most a third of the lease. It spends
// three quarters of that on send, and the rest on the connection of the
// retrier, which goes on without it.
func (r *Renewal) Confirm(
	start time.Time, send func(driver.Limits) (driver.Result, script.Indeterminate), retried func() *background.Release,
) (o driver.Result, first bool, err error) {
	c := r.client
	limit := min(c.CommandTimeout, r.settings.Lease/3)
	o, d := send(driver.Limits{Connect: limit / 2, Answer: limit / 2, End: start.Add(limit * 3 / 4)})
	if o.Answered && o.Err == nil {
		return o, !d.Exists(), nil
	}
	job := retried()
	c.Retrier.Retry(job)
	budget := time.NewTimer(limit - time.Since(start))
	defer budget.Stop()
	select {
	case <-job.Answered:
		if job.Answer.Err == nil {
			return job.Answer, !d.Exists() && job.First, nil
		}
		return o, false, errs.Both(errs.ErrUnconfirmed, job.Answer.Err)
	case <-budget.C:
	case <-c.Life.Done():
	}
	return o, false, errs.Both(errs.ErrUnconfirmed, o.Err)
}

// releaseJob returns the release in the background. That of the last level also
// cleans up after an indeterminate acquire.
func (l *Lease) releaseJob(levels int, release func(time.Time) script.Call) *background.Release {
	l.mu.Lock()
	defer l.mu.Unlock()
	var d script.Indeterminate
	if levels == 0 {
		d = l.doubts()
	}
	job := l.newCleanup(d, release)
	if levels > 0 {
		job.Lost = l.endWithNotice
	}
	return job
}

// judge returns the result of a release. A release that finds nothing has lost
// the hold, and with it the remaining levels, if any.
func (l *Lease) judge(o driver.Result, levels int, first bool) error {
	lost, err := l.Judge(o, first || levels > 0)
	if lost {
		return errs.Gone(l.refused())
	}
	return err
}

// Judge reads the answer to a last release: it reports whether the hold was
// lost before. If first is false, an earlier copy of the release may have done
// the work. To find nothing is then success as long as the grant cannot have
// expired. After that nobody knows.
func (r *Renewal) Judge(o driver.Result, first bool) (lost bool, err error) {
	// Foreign too: the lock may be reserved for the next waiter, and a
	// reservation is of another type.
	nothing := o.Reply == int64(script.Other) || o.Reply == int64(script.Foreign)
	if script.IsOurs(o.Reply) || first || !nothing {
		return !script.IsOurs(o.Reply), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Until(r.validUntil) > 0 {
		return false, nil
	}
	return false, errs.Both(errs.ErrUnconfirmed, errs.ErrAnswerLost)
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
// the key stays for its minimum hold; mu must be held.
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

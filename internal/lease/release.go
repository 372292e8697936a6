package lease

import (
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// sendLevels sends the number of remaining levels to the server. It takes at
// most the command timeout, counted from start, and at most a third of the
// lease. It spends three quarters of that on the pool, and the rest on the
// retrier's connection. The retrier then goes on without it.
func (l *Lease) sendLevels(levels int, start time.Time) error {
	if l.group != nil {
		return l.group.release()
	}
	c := l.client
	limit := min(c.CommandTimeout, l.lease/3)
	l.mu.Lock()
	l.seq++
	release, doubts := l.releaseCall(levels, l.seq), l.doubts()
	l.mu.Unlock()
	o, d := l.sendRelease(driver.Limits{Connect: limit / 2, Answer: limit / 2, End: start.Add(limit * 3 / 4)}, release.call(start))
	if o.Answered && o.Err == nil {
		if o.Reply == int64(script.More) {
			c.Retrier.PassOn(release.call(start))
		}
		if levels == 0 && !doubts.Last.IsZero() {
			again := release.again()
			if l.undo != nil {
				again = l.undo
			}
			c.Retrier.Retry(l.releaseJob(levels, again))
		}
		return l.judge(o, levels, !d.Exists())
	}
	job := l.releaseJob(levels, release.again())
	c.Retrier.Retry(job)
	budget := time.NewTimer(limit - time.Since(start))
	defer budget.Stop()
	select {
	case <-job.Answered:
		if job.Answer.Err == nil {
			return l.judge(job.Answer, levels, !d.Exists() && job.First)
		}
		return errs.Both(errs.ErrUnconfirmed, job.Answer.Err)
	case <-budget.C:
	case <-c.Life.Done():
	}
	return errs.Both(errs.ErrUnconfirmed, o.Err)
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

// judge returns the result of a release. The release of the last level may find
// nothing because an earlier copy of it did the work. That is success as long
// as the lease cannot have expired. After that nobody knows. Any other release
// that finds nothing has lost the hold.
func (l *Lease) judge(o driver.Result, levels int, first bool) error {
	if script.IsOurs(o.Reply) {
		return nil
	}
	l.mu.Lock()
	inTime := time.Until(l.validUntil) > 0
	l.mu.Unlock()
	// Foreign too: the lock may be reserved for the next waiter, and a
	// reservation is of another type.
	nothing := o.Reply == int64(script.Other) || o.Reply == int64(script.Foreign)
	if levels == 0 && !first && nothing {
		if inTime {
			return nil
		}
		return errs.Both(errs.ErrUnconfirmed, errs.ErrAnswerLost)
	}
	return errs.Gone(l.refused()) // and with it the remaining levels, if any
}

// ending is what the release of a lease ends besides its hold, for a lock that
// was handed off in this process, or granted by a message.
type ending struct {
	retained string // name of the retained queue entry; "" if there is none
	// Hold that an indeterminate transfer may have made of it, or the
	// reservation that its claim may have left; "" if there is none.
	successor string
	claim     *claim // of a grant by message, until it is answered
}

// leaving is the release that leaves some levels, as it is sent each time.
type leaving struct {
	protocol Protocol
	levels   Levels
	seq      int
	keep     time.Time // the key stays until then if no level is left
	whole    *Group    // of a member
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
	if r.whole != nil && !r.whole.returned.Load() {
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

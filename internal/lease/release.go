package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/script"
)

// giveBack tells the server how many levels are left. It takes at most the command timeout, counted from start: three
// quarters of it through the pool, the rest through the retrier's connection, which then goes on by itself.
func (l *Lease) giveBack(levels int, start time.Time) error {
	if l.group != nil {
		return l.group.giveBack(start)
	}
	c := l.client
	limit := min(c.CommandTimeout, l.lease/3)
	l.mu.Lock()
	l.seq++
	release := l.releaseCall(levels, l.seq, l.keep)
	l.mu.Unlock()
	o, d := c.Eval(context.Background(), driver.Limits{Connect: limit / 2, Answer: limit / 2, End: start.Add(limit * 3 / 4)}, release(start))
	if o.Answered && o.Err == nil {
		if o.Reply == int64(script.More) {
			c.Retrier.PassOn(release(start))
		}
		if levels == 0 && !l.doubt.Last.IsZero() {
			if l.undo != nil {
				release = l.undo
			}
			c.Retrier.Retry(l.releaseJob(levels, release))
		}
		return l.judge(o, levels, !d.Exists())
	}
	job := l.releaseJob(levels, release)
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

// releaseJob is the release in the background. The last one also cleans up after the acquire.
func (l *Lease) releaseJob(levels int, release func(time.Time) script.Call) *background.Release {
	l.mu.Lock()
	defer l.mu.Unlock()
	var d script.Indeterminate
	if levels == 0 {
		d = l.doubt
	}
	job := l.newCleanup(d, release)
	if levels > 0 {
		job.Lost = l.endWithNotice
	}
	return job
}

// judge reads the answer to a release. The last release may find nothing because an earlier copy of it has
// done the work; that is success while the lease cannot have ended by itself. Any other that finds nothing
// has lost the hold.
func (l *Lease) judge(o driver.Result, levels int, first bool) error {
	if script.IsOurs(o.Reply) {
		return nil
	}
	l.mu.Lock()
	inTime := time.Until(l.validUntil) > 0
	l.mu.Unlock()
	nothing := o.Reply == int64(script.Other) || o.Reply == int64(script.Foreign) // what is reserved for the next one is of another type
	if levels == 0 && !first && inTime && nothing {
		return nil
	}
	return errs.Gone(l.refused()) // and with it the levels that are left, if any
}

// ending is what the release of a lease ends besides its hold, of a lock that goes on in one process.
type ending struct {
	retained string // name of a wait in the queue, "" when there is none
	heir     string // hold that a transfer in doubt may have made of it, "" when there is none
}

// releaseCall is the request that leaves levels behind; with none the key is kept until keep; mu is held.
func (l *Lease) releaseCall(left, seq int, keep time.Time) func(time.Time) script.Call {
	ending, p, whole, stay := l.ending, l.protocol, l.memberOf, Levels{left, int(l.writes)}
	return func(now time.Time) script.Call {
		rest := max(0, keep.Sub(now)+time.Millisecond-1).Truncate(time.Millisecond) // rounded up
		if whole != nil && !whole.returned.Load() {
			rest = 0 // nobody got the hold that it was to be a part of
		}
		s := p.Release(stay, seq, rest)
		if ending != nil {
			s.Args = append(s.Args, ending.retained)
			if ending.heir != "" {
				s.Args = append(s.Args, ending.heir)
			}
		}
		return s
	}
}

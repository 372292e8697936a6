package relock

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
func (l *lease) giveBack(levels int, start time.Time) error {
	if l.parts != nil {
		return l.parts.giveBack(start)
	}
	c := l.client
	limit := min(c.commandTimeout, l.lease/3)
	l.mu.Lock()
	l.seq++
	release := l.release(levels, l.seq, l.keep)
	l.mu.Unlock()
	o, d := c.eval(context.Background(), driver.Limits{Connect: limit / 2, Answer: limit / 2, End: start.Add(limit * 3 / 4)}, release(start))
	if o.Answered && o.Err == nil {
		if o.Reply == int64(script.More) {
			c.retrier.PassOn(release(start))
		}
		if levels == 0 && !l.doubt.Last.IsZero() {
			if l.undo != nil {
				release = l.undo
			}
			c.retrier.Retry(l.releaseJob(levels, release))
		}
		return l.judge(o, levels, !d.Exists())
	}
	job := l.releaseJob(levels, release)
	c.retrier.Retry(job)
	budget := time.NewTimer(limit - time.Since(start))
	defer budget.Stop()
	select {
	case <-job.Answered:
		if job.Answer.Err == nil {
			return l.judge(job.Answer, levels, !d.Exists() && job.First)
		}
		return errs.Both(errs.ErrUnconfirmed, job.Answer.Err)
	case <-budget.C:
	case <-c.life.Done():
	}
	return errs.Both(errs.ErrUnconfirmed, o.Err)
}

// releaseJob is the release in the background. The last one also cleans up after the acquire.
func (l *lease) releaseJob(levels int, release func(time.Time) script.Call) *background.Release {
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
func (l *lease) judge(o driver.Result, levels int, first bool) error {
	if script.IsOurs(o.Reply) {
		return nil
	}
	l.mu.Lock()
	inTime := time.Until(l.until) > 0
	l.mu.Unlock()
	nothing := o.Reply == int64(script.Other) || o.Reply == int64(script.Foreign) // what is reserved for the next one is of another type
	if levels == 0 && !first && inTime && nothing {
		return nil
	}
	return gone(l.refused()) // and with it the levels that are left, if any
}

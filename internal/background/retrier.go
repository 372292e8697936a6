package background

import (
	"log/slog"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Retrier retries releases until they are certain, on its own workers.
type Retrier struct {
	*Fleet
	logger      *slog.Logger
	dialTimeout time.Duration
}

// NewRetrier returns a retrier on a fleet. Connecting may take up to
// dialTimeout.
func NewRetrier(f *Fleet, logger *slog.Logger, dialTimeout time.Duration) *Retrier {
	return &Retrier{Fleet: f, logger: logger, dialTimeout: dialTimeout}
}

// Retry takes over a release, and sends it immediately.
func (r *Retrier) Retry(job *Release) {
	job.retrier = r
	r.Add(NewJob(job), time.Now())
}

// Confirm sends a release, and returns its answer. If first is false, an
// earlier copy may have been executed. Confirm takes no longer than limit,
// counted from start. It spends three quarters of that on send, and the rest on
// the connection of the retrier, which goes on without it.
func (r *Retrier) Confirm(
	start time.Time, limit time.Duration, send func(driver.Limits) (driver.Result, script.Indeterminate),
	retried func() *Release,
) (o driver.Result, first bool, err error) {
	o, d := send(driver.Limits{Connect: limit / 2, Answer: limit / 2, End: start.Add(limit * 3 / 4)})
	if o.Answered && o.Err == nil {
		return o, !d.Exists(), nil
	}
	job := retried()
	r.Retry(job)
	budget := time.NewTimer(limit - time.Since(start))
	defer budget.Stop()
	select {
	case <-job.Answered:
		if job.Answer.Err == nil {
			return job.Answer, !d.Exists() && job.First, nil
		}
		return o, false, errs.Join(errs.ErrUnconfirmed, job.Answer.Err)
	case <-budget.C:
	case <-r.life.Done():
	}
	return o, false, errs.Join(errs.ErrUnconfirmed, o.Err)
}

// BestEffort sends a script for up to a second, until it is answered. No lock
// depends on it: a lost one only delays recovery.
func (r *Retrier) BestEffort(s func(time.Time) script.Call) {
	job := NewRelease("", time.Second, 0, script.Indeterminate{}, s)
	job.BestEffort = true
	r.Retry(job)
}

// PassOn continues a hand-off that stopped after as many entries as one script
// examines.
func (r *Retrier) PassOn(after script.Call) {
	s := script.Call{Script: after.Script.ContinueAfter(), Key: after.Key, Args: []any{"", 0}}
	r.BestEffort(func(time.Time) script.Call { return s })
}

// Unconfirmed returns the names of the locks whose releases are not finished.
// It omits best-effort ones: no lock depends on them.
func (r *Retrier) Unconfirmed() (keys []string) {
	for _, t := range r.unfinished() {
		if job := t.(*Release); !job.BestEffort && !job.isDone {
			keys = append(keys, job.key)
		}
	}
	return keys
}

// SendLast sends the unfinished releases over the links of Close once more.
// Those that a worker was sending are among them: it may not have connected.
func (r *Retrier) SendLast(end time.Time, l *Links) {
	jobs := r.unfinished()
	releases := make([]script.Call, len(jobs))
	for i, t := range jobs {
		releases[i] = t.(*Release).Call(time.Now())
	}
	for i, o := range l.SendUntil(end, releases) {
		jobs[i].(*Release).tookLast(o)
	}
}

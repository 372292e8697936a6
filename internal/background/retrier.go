package background

import (
	"log/slog"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/script"
)

// Retrier retries releases until they are certain, on its own worker.
type Retrier struct {
	*Worker
	logger      *slog.Logger
	dialTimeout time.Duration
}

// NewRetrier returns a retrier on a worker. Connecting may take up to
// dialTimeout.
func NewRetrier(w *Worker, logger *slog.Logger, dialTimeout time.Duration) *Retrier {
	return &Retrier{Worker: w, logger: logger, dialTimeout: dialTimeout}
}

// Retry takes over a release, and sends it immediately.
func (r *Retrier) Retry(job *Release) {
	job.retrier = r
	r.Add(NewJob(job), time.Now())
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
	s := script.Call{Script: script.Cancel, Key: after.Key, Args: []any{"", 0}}
	if after.Script.ReadWrite {
		s.Script = script.RWCancel
	}
	r.BestEffort(func(time.Time) script.Call { return s })
}

// Unconfirmed returns the names of the locks whose releases are not finished.
// It omits best-effort ones: no lock depends on them.
func (r *Retrier) Unconfirmed() (keys []string) {
	for _, t := range r.unfinished() {
		if job := t.(*Release); !job.BestEffort {
			keys = append(keys, job.key)
		}
	}
	return keys
}

// SendLast sends the unfinished releases over a link once more, after the
// worker has ended.
func (r *Retrier) SendLast(end time.Time, l driver.Link) {
	jobs := r.Pending()
	releases := make([]script.Call, len(jobs))
	for i, t := range jobs {
		releases[i] = t.(*Release).Call(time.Now())
	}
	for i, o := range SendUntil(end, l, releases) {
		jobs[i].(*Release).tookLast(o)
	}
}

// SendUntil runs scripts over a link, in batches, until end. The scripts that
// it does not reach get ErrTimeout.
func SendUntil(end time.Time, link driver.Link, all []script.Call) (outcomes []driver.Result) {
	for batch := range slices.Chunk(all, maxBatch) {
		left := time.Until(end)
		if left <= 0 {
			outcomes = append(outcomes, slices.Repeat([]driver.Result{{Err: driver.ErrTimeout}}, len(batch))...)
			continue
		}
		outcomes = append(outcomes, script.RunBatch(link, driver.BatchLimit{Own: left, Borrowed: left}, batch, nil)...)
	}
	return outcomes
}

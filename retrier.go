package relock

import (
	"log/slog"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/script"
)

// retrier sends releases again until they are certain, on a worker of its own.
type retrier struct {
	*worker
	logger      *slog.Logger
	dialTimeout time.Duration
	passOn      func(script.Call) // goes on with a hand-off that one script could not finish
}

// retry takes a release over, and sends it immediately.
func (r *retrier) retry(job *cleanup) {
	job.retrier = r
	r.add(newJob(job), time.Now())
}

// bestEffort sends a script for up to a second, until it is answered. No lock
// depends on it: a lost one only delays recovery.
func (r *retrier) bestEffort(s func(time.Time) script.Call) {
	job := newCleanup("", time.Second, 0, script.Indeterminate{}, s)
	job.quiet = true
	r.retry(job)
}

// unconfirmed returns the names of the locks whose releases are left, but those
// on which no lock depends.
func (r *retrier) unconfirmed() (keys []string) {
	for _, t := range r.unfinished() {
		if job := t.(*cleanup); !job.quiet {
			keys = append(keys, job.key)
		}
	}
	return keys
}

// sendLast sends what is left over a link once more, when the worker has ended.
func (r *retrier) sendLast(end time.Time, l driver.Link) {
	jobs := r.pending()
	releases := make([]script.Call, len(jobs))
	for i, t := range jobs {
		releases[i] = t.(*cleanup).release(time.Now())
	}
	for i, o := range sendUntil(end, l, releases) {
		jobs[i].(*cleanup).tookLast(o)
	}
}

// sendUntil runs scripts over a link, in batches, as many as it comes to.
func sendUntil(end time.Time, link driver.Link, all []script.Call) (outcomes []driver.Result) {
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

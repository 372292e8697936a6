package background

import (
	"container/heap"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/script"
)

// maxBatch is how many jobs share a pipeline.
const maxBatch = 100

// due takes out the jobs whose time has come, and those that come soon after
// one, or says how long that will be.
func (w *Worker) due(now time.Time) (batch []*Job, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.done:
		return nil, time.Hour
	default:
	}
	until := now
	for len(w.jobs) > 0 && len(batch) < maxBatch && !w.jobs[0].at.After(until) {
		batch = append(batch, heap.Pop(&w.jobs).(*Job))
		until = now.Add(w.Ahead)
	}
	w.batch = batch
	w.until = w.wakeAt(now)
	return batch, w.until.Sub(now)
}

// wakeAt is when to look again. A wake-up that is planned already stays, though
// its job may have gone: locks that are held for a moment then cost one wake-up
// now and then, not one each.
func (w *Worker) wakeAt(now time.Time) time.Time {
	next := now.Add(time.Hour)
	if len(w.jobs) > 0 {
		next = w.jobs[0].at
	}
	if w.until.After(now) && w.until.Before(next) {
		return w.until
	}
	return next
}

func (w *Worker) send(batch []*Job) {
	now := time.Now()
	var sending []*Job
	var requests []script.Call
	for _, j := range batch {
		s, ok := j.task.Next(now)
		if !ok {
			w.finish(j)
			continue
		}
		sending, requests = append(sending, j), append(requests, s)
	}
	shortest, _ := w.Bounds()
	outcomes := script.RunBatch(w.Link, driver.BatchLimit{Own: w.patience(sending), Borrowed: shortest}, requests, w.Ack)
	for i, o := range outcomes {
		sending[i].heard(o)
		w.answered(sending[i], o)
	}
}

// patience is the shortest limit, doubled for each answer in a row that one of
// the jobs has missed, up to the longest: a server that is too slow for one
// short lease is not too slow for all others. Each job counts for itself, since
// answers to the others say nothing of its own: a short lease that gets every
// second one would take them all from a long one.
func (w *Worker) patience(batch []*Job) time.Duration {
	missed := int32(0)
	for _, j := range batch {
		missed = max(missed, j.missed)
	}
	shortest, longest := w.Bounds()
	limit := shortest
	for ; missed > 0 && limit < longest; missed-- {
		limit = min(2*limit, longest)
	}
	return limit
}

func (w *Worker) answered(j *Job, o driver.Result) {
	w.mu.Lock()
	removed := j.removed
	w.mu.Unlock()
	if removed {
		return
	}
	again, ok := j.task.Handle(o)
	if !ok {
		w.finish(j)
		return
	}
	limit := max(j.task.Limit(), driver.MinLimit) // may have changed
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.removed {
		return
	}
	w.count(j, limit)
	if j.index < 0 || again.Before(j.at) {
		w.put(j, again)
	}
}

// finish forgets a job that is done, unless it was added again meanwhile.
func (w *Worker) finish(j *Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.index < 0 {
		w.count(j, 0)
	}
}

package background

import (
	"container/heap"
	"context"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// maxBatch is how many jobs share a pipeline at most.
const maxBatch = 100

// due removes the due jobs from the heap. If there is one, it also removes
// those that are due within Window. pause is the time until the next check.
func (w *Worker) due(now time.Time) (batch []*Job, pause time.Duration) {
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	if w.fleet.life.Err() != nil {
		return nil, time.Hour
	}
	until := now
	for len(w.jobs) > 0 && len(batch) < maxBatch && !w.jobs[0].at.After(until) {
		batch = append(batch, heap.Pop(&w.jobs).(*Job))
		until = now.Add(w.fleet.Window)
	}
	w.batch, w.runNow = batch, false
	w.until = w.wakeAt(now)
	return batch, w.until.Sub(now)
}

// wakeAt returns when to check again. A planned wake-up is kept, even if its
// job was removed. So locks that are held for a moment cost one wake-up now and
// then, not one each.
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

// here returns the jobs of a batch whose keys are at the worker's node. The
// others move to the workers of theirs. A job whose node is not learnt in time
// stays: the topology may be silent while the node is well.
func (w *Worker) here(batch []*Job) (stay []*Job) {
	f := w.fleet
	if f.one != nil {
		return batch
	}
	shortest, _ := w.bounds()
	ctx, cancel := context.WithTimeout(f.life, shortest)
	defer cancel()
	for _, j := range batch {
		n, err := f.driver.Home(ctx, j.task.Key())
		if err == nil && n != w.node {
			f.move(j, n)
		} else {
			stay = append(stay, j)
		}
	}
	return stay
}

func (w *Worker) send(batch []*Job) {
	now := time.Now()
	var sending []*Job
	var requests []script.Call
	for _, j := range w.here(batch) {
		s, ok := j.task.Next(now)
		if !ok {
			w.finish(j)
			continue
		}
		sending, requests = append(sending, j), append(requests, s)
	}
	shortest, _ := w.bounds()
	missed := missedBy(sending)
	own := w.patience(missed)
	w.expect(sentBatch{until: now.Add(own), missed: missed})
	outcomes := script.RunBatch(w.Link, driver.BatchLimit{Own: own, Borrowed: shortest}, requests, w.fleet.Ack)
	w.expect(sentBatch{})
	for i, o := range outcomes {
		sending[i].countLate(o)
		w.answered(sending[i], o)
	}
}

// patience returns the limit for the answers to a batch. It is the shortest
// limit of all jobs, and doubles for each answer in a row that a job of the
// batch has missed. It never exceeds the longest limit. A server that is too
// slow for one short lease is not too slow for all others.
//
// Each job counts its own answers, since those to other jobs prove nothing
// about it. With one count for all, a short lease that gets every second answer
// would cost a long lease all of its answers.
func (w *Worker) patience(missed int16) time.Duration {
	shortest, longest := w.bounds()
	return doubled(shortest, missed, longest)
}

// missedBy returns the most answers in a row that a job of the batch has
// missed.
func missedBy(batch []*Job) (missed int16) {
	for _, j := range batch {
		missed = max(missed, j.missed)
	}
	return missed
}

// doubled returns the limit doubled so many times, but at most longest.
func doubled(limit time.Duration, times int16, longest time.Duration) time.Duration {
	for ; times > 0 && limit < longest; times-- {
		limit = min(2*limit, longest)
	}
	return limit
}

// expect notes the batch whose answers are awaited, or that none is.
func (w *Worker) expect(b sentBatch) {
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	w.sent = b
}

// shorten gives up the batch under way in time for a job that was added
// meanwhile. Its limit counts as if it had been there when the batch was sent;
// fleet.mu is held.
func (w *Worker) shorten(j *Job) {
	if j.removed || !j.at.Add(j.limit).Before(w.sent.until) {
		return
	}
	due := time.Now()
	if j.at.After(due) {
		due = j.at
	}
	w.Link.Shorten(due.Add(doubled(j.limit, w.sent.missed, w.sent.until.Sub(due))))
}

func (w *Worker) answered(j *Job, o driver.Result) {
	w.fleet.mu.Lock()
	removed := j.removed
	w.fleet.mu.Unlock()
	if removed {
		return
	}
	again, ok := j.task.Handle(o)
	if !ok {
		w.finish(j)
		return
	}
	limit := max(j.task.Limit(), driver.MinLimit) // may have changed
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	if j.removed {
		return
	}
	w.count(j, limit)
	if w.runNow && !o.Answered && !driver.IsAnswer(o.Err) {
		again = time.Now()
	}
	if j.index < 0 || again.Before(j.at) {
		w.put(j, again)
	}
}

// finish forgets a job that is done, unless it was added again since it was
// taken out of the heap.
func (w *Worker) finish(j *Job) {
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	if j.index < 0 {
		w.count(j, 0)
	}
}

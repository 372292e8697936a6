package background

import (
	"container/heap"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// Worker sends the jobs of one node when they are due, in pipelined batches
// over a dedicated connection, so that no caller can delay it. Without a
// connection it takes a detour, see package driver. It has one goroutine, which
// starts with the first job.
type Worker struct {
	fleet *Fleet
	node  driver.Node
	Link  driver.Link
	wake  chan struct{}

	// Guarded by fleet.mu.
	jobs    jobHeap
	batch   []*Job                // taken out of the heap to be sent
	sent    sentBatch             // the batch under way; zero if there is none
	runNow  bool                  // all jobs became due while the batch was under way
	limits  map[time.Duration]int // how many unfinished jobs have each limit
	started bool
	retired bool      // its node is not to be used any more
	ended   bool      // it was retired, and has no jobs
	until   time.Time // when the timer wakes the worker
}

// sentBatch is when a batch is given up, and the most answers in a row that a
// job of it had missed before.
type sentBatch struct {
	until  time.Time
	missed int16
}

// schedule puts a job into the heap, and wakes the worker if it is due sooner
// than others. A batch under way is given up sooner, if the job needs that;
// fleet.mu is held.
func (w *Worker) schedule(j *Job, at time.Time) {
	if !w.started {
		w.started = w.fleet.tasks.Start(w.run)
	}
	w.put(j, at)
	if at.Before(w.until) {
		w.until = at
		w.nudge()
	}
	w.shorten(j)
}

func (w *Worker) put(j *Job, at time.Time) {
	switch j.at = at; {
	case j.removed:
	case j.index >= 0:
		heap.Fix(&w.jobs, int(j.index))
	default:
		heap.Push(&w.jobs, j)
	}
}

// drop takes a job out of the heap, and reports whether it was there; fleet.mu
// is held.
func (w *Worker) drop(j *Job) bool {
	if j.index < 0 {
		return false
	}
	heap.Remove(&w.jobs, int(j.index))
	if w.retired && len(w.jobs) == 0 {
		w.nudge() // it ends
	}
	return true
}

// count records the job's limit. A limit of 0 removes it.
func (w *Worker) count(j *Job, limit time.Duration) {
	if limit == j.limit {
		return
	}
	if j.limit > 0 {
		if w.limits[j.limit]--; w.limits[j.limit] == 0 {
			delete(w.limits, j.limit)
		}
	}
	if j.limit = limit; limit > 0 {
		w.limits[limit]++
	}
}

// bounds returns the limits of the most impatient job and of the most patient
// one. Jobs that are not due count too: while the connection is silent, no
// other job is sent. There are as many different limits as different leases in
// use.
func (w *Worker) bounds() (shortest, longest time.Duration) {
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	for limit := range w.limits {
		if shortest == 0 || limit < shortest {
			shortest = limit
		}
		longest = max(longest, limit)
	}
	return shortest, longest
}

// ends takes the worker out of its fleet, and reports whether it did: it is
// retired and has no jobs. A job that is added again finds another worker.
func (w *Worker) ends() bool {
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	if w.ended = w.retired && len(w.jobs) == 0; w.ended {
		delete(w.fleet.workers, w.node)
	}
	return w.ended
}

func (w *Worker) nudge() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake already
	}
}

// pending appends the tasks in the heap; fleet.mu is held.
func (w *Worker) pending(left []Task) []Task {
	for _, j := range w.jobs {
		left = append(left, j.task)
	}
	return left
}

// underWay appends the tasks of the batch that is being sent; fleet.mu is held.
func (w *Worker) underWay(left []Task) []Task {
	for _, j := range w.batch {
		if j.index < 0 && j.limit > 0 { // neither added again nor done
			left = append(left, j.task)
		}
	}
	return left
}

func (w *Worker) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		batch, pause := w.due(time.Now())
		if len(batch) > 0 {
			w.send(batch)
			continue
		}
		if w.ends() {
			w.Link.Close()
			return
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.fleet.life.Done():
			return
		}
	}
}

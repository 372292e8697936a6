package background

import (
	"container/heap"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/tasks"
)

// Worker sends jobs when they are due, in pipelined batches over a dedicated
// connection, so that no caller can delay it. Without a connection it takes a
// detour, see package driver. It has one goroutine, which starts with the first
// job.
type Worker struct {
	Link  driver.Link
	tasks *tasks.Group
	done  <-chan struct{} // of the client
	Ahead time.Duration   // how much too early a job may go along with a due one

	Ack *driver.Ack // replica acks that all jobs wait for, or nil

	mu      sync.Mutex
	jobs    jobHeap
	batch   []*Job                // taken out of the heap to be sent
	limits  map[time.Duration]int // how many unfinished jobs have each limit
	started bool
	until   time.Time // when the timer wakes the worker
	wake    chan struct{}
}

// NewWorker returns a worker that sends through a driver. Its goroutine belongs
// to the group of a client, and ends when done is closed.
func NewWorker(d driver.Driver, t *tasks.Group, done <-chan struct{}) *Worker {
	return &Worker{Link: d.Link(), tasks: t, done: done, limits: map[time.Duration]int{}, wake: make(chan struct{}, 1)}
}

// Close closes the worker's connection. Only done ends its goroutine.
func (w *Worker) Close() { w.Link.Close() }

// Add adds a job, or moves it to another time. A removed job stays out.
func (w *Worker) Add(j *Job, at time.Time) { w.plan(j, at, false) }

// AddEarlier is Add, but a job that has an earlier time keeps it.
func (w *Worker) AddEarlier(j *Job, at time.Time) { w.plan(j, at, true) }

func (w *Worker) plan(j *Job, at time.Time, onlySooner bool) {
	limit := max(j.task.Limit(), driver.MinLimit)
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.removed || onlySooner && j.index >= 0 && !at.Before(j.at) {
		return
	}
	w.count(j, limit)
	if !w.started {
		w.started = w.tasks.Start(w.run)
	}
	w.put(j, at)
	if at.Before(w.until) {
		w.until = at
		w.nudge()
	}
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

// Bounds returns the limits of the most impatient job and of the most patient
// one. Jobs that are not due count too: while the connection is silent, no
// other job is sent. There are as many different limits as different leases in
// use.
func (w *Worker) Bounds() (shortest, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for limit := range w.limits {
		if shortest == 0 || limit < shortest {
			shortest = limit
		}
		longest = max(longest, limit)
	}
	return shortest, longest
}

// Remove takes a job out for good. A request of it that is under way may still
// be executed, but its answer is ignored.
func (w *Worker) Remove(j *Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j.removed = true
	w.count(j, 0)
	if j.index >= 0 {
		heap.Remove(&w.jobs, int(j.index))
	}
}

// Drop takes a job out unless it is under way. In that case its task sees the
// answer, and must end the job.
func (w *Worker) Drop(j *Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.index >= 0 {
		heap.Remove(&w.jobs, int(j.index))
		w.count(j, 0)
	}
}

func (w *Worker) nudge() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Pending returns the unfinished tasks, without those that are under way.
func (w *Worker) Pending() []Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []Task
	for _, j := range w.jobs {
		left = append(left, j.task)
	}
	return left
}

// unfinished returns the unfinished tasks, with those that are under way.
func (w *Worker) unfinished() []Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []Task
	for _, j := range w.jobs {
		left = append(left, j.task)
	}
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
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.done:
			return
		}
	}
}

package background

import (
	"container/heap"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/tasks"
)

// Worker sends jobs when they are due, in pipelined batches over a connection
// of its own, so that no caller can keep it from doing so; see detour.go for
// when it has none. One goroutine, started with the first job.
type Worker struct {
	Link  driver.Link
	tasks *tasks.Group
	done  <-chan struct{} // of the client
	Ahead time.Duration   // jobs may go along so much too early

	Ack *driver.Ack // that all jobs wait for; nil when they wait for none

	mu      sync.Mutex
	jobs    jobHeap
	batch   []*Job                // taken out of them to be sent
	limits  map[time.Duration]int // of the jobs that are not done
	started bool
	until   time.Time // when the worker wakes by itself
	wake    chan struct{}
}

// NewWorker returns a worker of a driver, in the group of a client. It ends
// when done is closed.
func NewWorker(d driver.Driver, t *tasks.Group, done <-chan struct{}) *Worker {
	return &Worker{Link: d.Link(), tasks: t, done: done, limits: map[time.Duration]int{}, wake: make(chan struct{}, 1)}
}

// Close ends the worker's connection; done ends its goroutine.
func (w *Worker) Close() { w.Link.Close() }

// Add puts a job in, or moves it. A removed job stays out.
func (w *Worker) Add(j *Job, at time.Time) { w.plan(j, at, false) }

// AddEarlier is add for a job that may have an earlier time already, which it
// keeps.
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

// count enters the job's limit; 0 takes it out.
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

// Bounds are the limits of the most impatient job and of the most patient one,
// due or not: while one connection is silent, no other job gets its turn. There
// are as many different limits as there are different leases in use.
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

// Remove takes a job out for good. What it has under way may still be executed;
// its answer is not looked at any more.
func (w *Worker) Remove(j *Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j.removed = true
	w.count(j, 0)
	if j.index >= 0 {
		heap.Remove(&w.jobs, int(j.index))
	}
}

// Drop takes a job out unless it is under way; then its task sees the answer,
// and has to end it.
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

// Pending returns the tasks that are left, but those that are under way.
func (w *Worker) Pending() []Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []Task
	for _, j := range w.jobs {
		left = append(left, j.task)
	}
	return left
}

// unfinished returns the tasks that are left, with those that are under way.
func (w *Worker) unfinished() []Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []Task
	for _, j := range w.jobs {
		left = append(left, j.task)
	}
	for _, j := range w.batch {
		if j.index < 0 && j.limit > 0 { // neither put back nor done
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

package background

import (
	"container/heap"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Fleet sends jobs when they are due. It has a worker for each node, so that a
// node that hangs delays no job of another one.
type Fleet struct {
	driver driver.Driver
	tasks  *goroutines.Group
	life   context.Context // of the client
	Window time.Duration   // how much too early a job may go along with a due one
	Ack    *driver.Ack     // replica acks that all jobs wait for, or nil

	one *Worker // of the only node; nil if there may be several

	mu      sync.Mutex // guards what follows, and what the workers have
	workers map[driver.Node]*Worker
}

// NewFleet returns a fleet that sends through a driver. Its goroutines belong
// to the group of a client, and end with its life.
func NewFleet(life context.Context, d driver.Driver, t *goroutines.Group) *Fleet {
	f := &Fleet{driver: d, tasks: t, life: life, workers: map[driver.Node]*Worker{}}
	if only, ok := d.(driver.Node); ok {
		f.one = f.worker(only)
	}
	return f
}

// worker returns the worker of a node, and makes it if there is none; mu is
// held.
func (f *Fleet) worker(n driver.Node) *Worker {
	w := f.workers[n]
	if w == nil {
		w = &Worker{fleet: f, node: n, Link: n.Link(), limits: map[time.Duration]int{}, wake: make(chan struct{}, 1)}
		f.workers[n] = w
	}
	return w
}

// Close closes the connections of the workers. Only the end of the client's
// life ends their goroutines.
func (f *Fleet) Close() {
	for _, w := range f.all() {
		w.Link.Close()
	}
}

// Retire ends the workers of nodes that are not to be used any more, once their
// jobs have moved. Each job moves when it is due.
func (f *Fleet) Retire(gone []driver.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range gone {
		if w := f.workers[n]; w != nil {
			w.retired = true
			w.nudge()
		}
	}
}

// RunNow makes all jobs due. One under way is due when it gets no answer.
func (f *Fleet) RunNow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, w := range f.workers {
		for _, j := range w.jobs {
			j.at = now
		}
		heap.Init(&w.jobs)
		w.runNow = true
		w.nudge()
	}
}

func (f *Fleet) all() []*Worker {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.workers))
}

// Add adds a job, or moves it to another time. A removed job stays out.
func (f *Fleet) Add(j *Job, at time.Time) { f.plan(j, at, false) }

// AddEarlier is Add, but a job that has an earlier time keeps it.
func (f *Fleet) AddEarlier(j *Job, at time.Time) { f.plan(j, at, true) }

func (f *Fleet) plan(j *Job, at time.Time, onlySooner bool) {
	limit := max(j.task.Limit(), driver.MinLimit)
	known := f.known(j)
	f.mu.Lock()
	defer f.mu.Unlock()
	if j.removed || onlySooner && j.index >= 0 && !at.Before(j.at) {
		return
	}
	if j.worker == nil || j.worker.ended {
		if j.worker != nil {
			j.worker.count(j, 0)
		}
		j.worker = f.worker(known)
	}
	j.worker.count(j, limit)
	j.worker.schedule(j, at)
}

// known returns the node for a new job. It is only a guess: the worker checks
// before it sends.
func (f *Fleet) known(j *Job) driver.Node {
	if f.one != nil {
		return f.one.node
	}
	return f.driver.Known(j.task.Key())
}

// move moves a job from its worker to that of another node. Only the worker
// that is about to send the job calls it. The job is due now.
func (f *Fleet) move(j *Job, n driver.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	limit := j.limit
	if j.removed {
		return
	}
	j.worker.count(j, 0)
	if j.index >= 0 { // added again meanwhile
		heap.Remove(&j.worker.jobs, int(j.index))
	}
	j.worker = f.worker(n)
	j.worker.count(j, limit)
	j.worker.schedule(j, time.Now())
}

// Remove takes a job out for good. A request of it that is under way may still
// be executed, but its answer is ignored.
func (f *Fleet) Remove(j *Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j.removed = true
	if j.worker != nil {
		j.worker.drop(j)
		j.worker.count(j, 0)
	}
}

// Drop takes a job out unless it is under way. In that case its task sees the
// answer, and must end the job.
func (f *Fleet) Drop(j *Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j.worker != nil && j.worker.drop(j) {
		j.worker.count(j, 0)
	}
}

// unfinished returns the unfinished tasks, with those that are under way.
func (f *Fleet) unfinished() (left []Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.workers {
		left = w.underWay(w.pending(left))
	}
	return left
}

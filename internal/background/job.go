package background

import (
	"math"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Task is something that a worker sends to the server until it is done.
type Task interface {
	// Key returns the key in Redis, which decides the node.
	Key() string
	// Next returns what to send now, or false if nothing is left to send.
	Next(now time.Time) (script.Call, bool)
	// Limit returns how long an answer may take before the worker tries another
	// connection.
	Limit() time.Duration
	// Handle takes the result, and returns when to send again. ok is false if
	// the task is done.
	Handle(o driver.Result) (again time.Time, ok bool)
}

// Job is what a worker keeps about a task. Its fields belong to the worker.
// There is one for each lease, so its 64 bytes count.
type Job struct {
	task    Task
	worker  *Worker // nil before it is first added
	at      time.Time
	limit   time.Duration // as counted in Worker.limits; 0 if it is not
	index   int32         // in the heap; -1 if it is not there
	missed  int16         // late answers or connections in a row; only for the worker's goroutine
	removed bool          // by Remove; a removed job under way is not added again
}

// NewJob returns a job for a worker.
func NewJob(t Task) *Job {
	j := &Job{}
	j.Init(t)
	return j
}

// Init makes j a job for a worker. It is called once, for a job that is part of
// something else.
func (j *Job) Init(t Task) { j.task, j.index = t, -1 }

// countLate counts the answers, or connections, in a row that did not come in
// time.
func (j *Job) countLate(o driver.Result) {
	if late := o.IsMissing() && !o.Broke() || o.Unconnected(); !late {
		j.missed = 0
		return
	}
	if j.missed < math.MaxInt16 {
		j.missed++
	}
}

// jobHeap orders jobs by their time.
type jobHeap []*Job

func (h jobHeap) Len() int           { return len(h) }
func (h jobHeap) Less(a, b int) bool { return h[a].at.Before(h[b].at) }
func (h jobHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].index, h[b].index = int32(a), int32(b)
}

func (h *jobHeap) Push(x any) {
	j := x.(*Job)
	j.index = int32(len(*h))
	*h = append(*h, j)
}

func (h *jobHeap) Pop() any {
	old := *h
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	j.index = -1
	return j
}

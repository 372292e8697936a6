package relocktest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/taskdouble"
	"github.com/relock-go/relock/queue"
)

// inside is what package queue shares with its double.
type inside interface {
	Wrap(op string, err error) error
	Settings() taskdouble.Settings
	Check(i int, t queue.Task) (queue.Task, error)
	Enqueued(ctx context.Context, t queue.Task)
	Deliver(
		ctx context.Context, t queue.Task, of taskdouble.Delivery,
	) (d *queue.Delivery, chosen func() (verb string, argument any))
	Handle(ctx context.Context, d *queue.Delivery, fn func(context.Context, *queue.Delivery) error)
}

// Queue is a task queue in memory, for unit tests of code that enqueues tasks
// or handles them. It has the methods of [queue.Queue] that such code calls,
// with the same errors. [Queue.RunDue] is in the place of Process. It can be
// used from any goroutine.
//
// It reads the time from package time. In a bubble of package testing/synctest
// a test sleeps until a task is due, which takes no real time.
type Queue struct {
	inside   inside
	settings taskdouble.Settings
	mistakes error

	mu      sync.Mutex // guards the fields below, and all tasks
	tasks   map[string]*task
	count   int64 // the last number that was drawn
	fence   int64
	suspect *task // the last one that was delivered after an interruption, or nil

	paused     bool
	pausedKeys map[string]time.Time // since when
}

// task is one task, from Enqueue to the end of its window.
type task struct {
	queue.Task
	enqueued, due time.Time
	ticket        int64 // drawn by Enqueue
	place         int64 // in the order of what is due
	line          int64 // in the order of its key; 0 before it has joined
	attempts      int
	interruptions int
	running       *attempt // nil unless it is in flight
	fence         int64    // of its last delivery
	received      time.Time
	done          time.Time // zero until it was acknowledged
	died          time.Time // zero unless it is a dead letter
	reason        string    // of the last failure, or of its death
	aside         bool      // behind the pause of its key
}

func (t *task) isLive() bool { return t.done.IsZero() && t.died.IsZero() }

// NewQueue returns an empty queue. It accepts the options of [queue.New].
// Mistakes in them are [relock.ErrInvalid] at the first call. Leases are
// renewed without fail until [Queue.Lose].
func NewQueue(name string, opts ...queue.Option) *Queue {
	made, err := taskdouble.New(name, opts)
	q := &Queue{mistakes: err, tasks: map[string]*task{}, pausedKeys: map[string]time.Time{}}
	q.inside = made.(inside) //nolint:forcetypeassert // package queue provides it
	q.settings = q.inside.Settings()
	return q
}

// Enqueue queues tasks, as [queue.Queue.Enqueue] does.
func (q *Queue) Enqueue(ctx context.Context, tasks ...queue.Task) (ids []string, err error) {
	if err := q.ready(ctx); err != nil {
		return nil, q.inside.Wrap("enqueue", err)
	}
	var outcome queue.EnqueueError
	var reasons []error
	for i, t := range tasks {
		t, err := q.inside.Check(i, t)
		if err != nil {
			reasons = append(reasons, err)
		} else if t.ID = cmp.Or(t.ID, rand.Text()); q.put(t) {
			outcome.Queued = append(outcome.Queued, t.ID)
			q.inside.Enqueued(ctx, t)
		} else {
			outcome.Duplicates = append(outcome.Duplicates, t.ID)
		}
		ids = append(ids, t.ID)
	}
	if len(outcome.Duplicates) > 0 {
		reasons = append(reasons, fmt.Errorf("%w: %q", queue.ErrDuplicate, outcome.Duplicates))
	}
	if outcome.Err = errors.Join(reasons...); outcome.Err == nil {
		return ids, nil
	}
	return ids, q.inside.Wrap("enqueue", &outcome)
}

// put queues a task, and reports whether its ID was free.
func (q *Queue) put(t queue.Task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forgetLocked()
	if q.tasks[t.ID] != nil {
		return false
	}
	now := time.Now()
	one := &task{Task: t, enqueued: now, due: now.Add(t.Delay), ticket: q.nextLocked()}
	one.Payload, one.place = slices.Clone(t.Payload), one.ticket
	if t.Delay == 0 {
		one.line = one.ticket
	}
	q.tasks[t.ID] = one
	return true
}

func (q *Queue) nextLocked() int64 { q.count++; return q.count }

// forgetLocked forgets tasks whose window is over.
func (q *Queue) forgetLocked() {
	for id, t := range q.tasks {
		if !t.done.IsZero() && time.Since(t.done) >= q.settings.Unique {
			delete(q.tasks, id)
		}
	}
}

// ready returns an error if a call cannot begin.
func (q *Queue) ready(ctx context.Context) error {
	switch {
	case q.mistakes != nil:
		return q.mistakes
	case ctx == nil:
		return fmt.Errorf("%w: context: is nil", relock.ErrInvalid)
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	}
	return nil
}

// TryReceive returns up to n tasks that are due. Settle each of them.
func (q *Queue) TryReceive(ctx context.Context, n int) (got []*queue.Delivery, err error) {
	if err = q.ready(ctx); err == nil && n < 1 {
		err = fmt.Errorf("%w: n: %d is below 1", relock.ErrInvalid, n)
	}
	if err != nil {
		return nil, q.inside.Wrap("receive", err)
	}
	for range n {
		d := q.receive(ctx)
		if d == nil {
			break
		}
		got = append(got, d)
	}
	return got, nil
}

// RunDue runs fn for each task that is due, one after the other, until none is,
// and settles each as [queue.Queue.Process] does: an error is a retry after the
// back-off, the last one and [queue.Permanent] are dead letters. Tasks that fn
// enqueues run too. It returns how many attempts there were. It stops when ctx
// is cancelled.
//
// A retry is due when its back-off has passed: sleep, in a bubble, and call
// RunDue again.
func (q *Queue) RunDue(ctx context.Context, fn func(context.Context, *queue.Delivery) error) (attempts int) {
	for ctx.Err() == nil {
		d := q.receive(ctx)
		if d == nil {
			break
		}
		q.inside.Handle(ctx, d, fn)
		attempts++
	}
	return attempts
}

// receive returns the delivery of the first task that may run, or nil.
func (q *Queue) receive(ctx context.Context) *queue.Delivery {
	if q.ready(ctx) != nil {
		return nil
	}
	q.mu.Lock()
	t := q.firstLocked()
	if t == nil {
		q.mu.Unlock()
		return nil
	}
	a := q.takeLocked(t)
	one, of := t.Task, taskdouble.Delivery{
		Attempt: t.attempts, Interruptions: t.interruptions, Fence: t.fence, EnqueuedAt: t.enqueued, Lease: a,
	}
	q.mu.Unlock()
	d, chosen := q.inside.Deliver(ctx, one, of) // without mu, as it calls the observer
	a.chosen = chosen
	return d
}

// takeLocked begins an attempt at a task.
func (q *Queue) takeLocked(t *task) *attempt {
	t.attempts++
	q.fence++
	t.running, t.fence, t.received = &attempt{queue: q, task: t}, q.fence, time.Now()
	if t.interruptions > 0 {
		q.suspect = t
	}
	return t.running
}

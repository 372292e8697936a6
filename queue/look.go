package queue

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
)

// State is where a task is. [Stats] has how many are in each.
type State string

// The states of a task.
const (
	StateReady    State = "ready"     // due, and not in flight
	StateDelayed  State = "delayed"   // due later, retries included
	StateInFlight State = "in flight" // received, and not settled, and the lease has not ended
	StateBehind   State = "behind"    // behind an earlier task or a pause of its key, or a lock
	StateDead     State = "dead"      // a dead letter within [WithDeadLetterLimit]
)

// TaskInfo is a task, and what it waits for. Times are those of the server. If
// its record cannot be read, Payload is the record, and the other fields of the
// Task, but its ID, and EnqueuedAt are zero.
type TaskInfo struct {
	Task
	State      State
	EnqueuedAt time.Time
	Attempts   int // with the one in flight

	Interruptions int // see [WithMaxInterruptions]

	// LastError is why the last attempt that failed did, or why the task died.
	// It is empty if no reason was given.
	LastError string

	// Due is since when a task is ready, or when a delayed one is due.
	Due time.Time

	// Holder is the client that has a task in flight, as it has written that.
	// Since is when it was received. It is nil in other states.
	Holder   *relock.Holder
	LeaseEnd time.Time // unless it is renewed

	// Before is the ID of the task of its key that a task is behind. Lock is
	// the lock of [WithLocker] that it is behind. Both are empty if it is
	// behind a pause, or others have damaged what is stored.
	Before, Lock string

	// Paused is set if the key or the queue is paused, unless the task is dead.
	Paused bool

	DiedAt time.Time // of a dead letter
}

// Get returns the task with this ID, and what it waits for. It returns
// [ErrNotFound] if there is none: it was never enqueued, or is done, or
// removed.
func (q *Queue) Get(ctx context.Context, id string) (TaskInfo, error) {
	if err := q.ready(ctx); err != nil {
		return TaskInfo{}, q.wrap("get", err)
	}
	if id == "" {
		return TaskInfo{}, q.wrap("get", fmt.Errorf("%w: id: is empty", relock.ErrInvalid))
	}
	some, _, err := q.read().tasks(ctx, []string{id})
	if err == nil && len(some) == 0 {
		err = errs.Join(ErrNotFound, fmt.Errorf("%.64q", id))
	}
	if err != nil {
		return TaskInfo{}, q.wrap("get", err)
	}
	return some[0], nil
}

// Tasks returns the tasks in this state, a few at a time. What it yields was so
// at one moment. A task whose state changes meanwhile may be missed, or come
// twice; one that is behind another task may also come twice without a change.
// All others come once. Dead letters come in the order of their deaths, and
// those in flight in that of their lease ends. After an error it ends.
//
// It reads a queue of any length without a long script. A page of 64 tasks
// takes three.
func (q *Queue) Tasks(ctx context.Context, state State) iter.Seq2[TaskInfo, error] {
	return func(yield func(TaskInfo, error) bool) {
		l := listing{reading: q.read(), state: state, yield: yield}
		if err := l.run(ctx); err != nil {
			yield(TaskInfo{}, q.wrap("tasks", err))
		}
	}
}

// read returns a reading of the queue. One of no queue fails.
func (q *Queue) read() *reading {
	if q == nil {
		return newReading(&base{})
	}
	return newReading(&q.base)
}

package relocktest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/queue"
)

// Get returns the task with this ID, and what it waits for, as
// [queue.Queue.Get] does. The holder of a task in flight is this process, with
// no client and no label. Its LeaseEnd is a lease away, because leases are
// renewed.
func (q *Queue) Get(ctx context.Context, id string) (queue.TaskInfo, error) {
	err := q.ready(ctx)
	switch {
	case err != nil:
	case id == "":
		err = fmt.Errorf("%w: id: is empty", relock.ErrInvalid)
	default:
		for _, t := range q.infos() {
			if t.ID == id {
				return t, nil
			}
		}
		err = errs.Join(queue.ErrNotFound, fmt.Errorf("%.64q", id))
	}
	return queue.TaskInfo{}, q.inside.Wrap("get", err)
}

// states are those that a task can have.
var states = []queue.State{
	queue.StateReady, queue.StateDelayed, queue.StateInFlight, queue.StateBehind, queue.StateDead,
}

// Tasks returns the tasks that are in this state when the loop begins, as
// [queue.Queue.Tasks] does. They come in the order in which they were received,
// or died, or may be delivered.
func (q *Queue) Tasks(ctx context.Context, state queue.State) iter.Seq2[queue.TaskInfo, error] {
	return func(yield func(queue.TaskInfo, error) bool) {
		err := q.ready(ctx)
		if err == nil && !slices.Contains(states, state) {
			err = fmt.Errorf("%w: state: there is no %.40q", relock.ErrInvalid, state)
		}
		if err != nil {
			yield(queue.TaskInfo{}, q.inside.Wrap("tasks", err))
			return
		}
		for _, t := range q.infos() {
			if t.State == state && !yield(t, nil) {
				return
			}
		}
	}
}

// infos returns all tasks. Those in flight and dead come in the order of their
// times, those behind in that of their keys, and the others in that of their
// deliveries.
func (q *Queue) infos() (all []queue.TaskInfo) {
	letters := q.dead()
	q.mu.Lock()
	defer q.mu.Unlock()
	last := map[string]string{} // the last task of each key up to here
	for _, t := range q.inLineLocked() {
		before := last[t.Key]
		if t.Key != "" && t.line > 0 {
			last[t.Key] = t.ID
		}
		all = append(all, q.infoLocked(t, before))
	}
	slices.SortStableFunc(all, func(a, b queue.TaskInfo) int {
		return cmp.Or(a.Due.Compare(b.Due), q.orderLocked(a, b))
	})
	for _, t := range letters {
		all = append(all, queue.TaskInfo{
			Task: t.Task, State: queue.StateDead, EnqueuedAt: t.EnqueuedAt, Attempts: t.Attempts,
			Interruptions: t.Interruptions, LastError: t.Reason, DiedAt: t.DiedAt,
		})
	}
	return all
}

// orderLocked compares two tasks that are due at one time, or not due.
func (q *Queue) orderLocked(a, b queue.TaskInfo) int {
	one, other := q.tasks[a.ID], q.tasks[b.ID]
	switch {
	case one.running != nil && other.running != nil:
		return cmp.Compare(one.fence, other.fence)
	case a.Due.IsZero():
		return 0 // in the order of their keys
	}
	return cmp.Compare(one.place, other.place)
}

// infoLocked returns a live task. before is the one of its key before it, or
// "".
func (q *Queue) infoLocked(t *task, before string) queue.TaskInfo {
	i := queue.TaskInfo{
		Task: t.Task, EnqueuedAt: t.enqueued, Attempts: t.attempts, Interruptions: t.interruptions,
		LastError: t.reason, Paused: q.paused || q.isPausedLocked(t.Key),
	}
	switch {
	case t.running != nil:
		i.State, i.LeaseEnd = queue.StateInFlight, time.Now().Add(q.settings.Lease)
		host, _ := os.Hostname() // "" is that it is not known
		i.Holder = &relock.Holder{Host: host, PID: os.Getpid(), Since: t.received, Count: 1}
	case t.line > 0 && before != "":
		i.State, i.Before = queue.StateBehind, before
	case t.aside:
		i.State = queue.StateBehind
	case t.due.After(time.Now()):
		i.State, i.Due = queue.StateDelayed, t.due
	default:
		i.State, i.Due = queue.StateReady, t.due
	}
	return i
}

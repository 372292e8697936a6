package relocktest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/queue"
)

// Remove removes a task that waits, or a dead letter.
func (q *Queue) Remove(ctx context.Context, id string) error {
	err := q.ready(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tasks[id]
	switch {
	case err != nil:
	case t == nil || !t.done.IsZero():
		err = errs.Both(queue.ErrNotFound, fmt.Errorf("%.64q", id))
	case t.running != nil:
		err = errs.Both(queue.ErrInFlight, fmt.Errorf("%.64q", id))
	default:
		delete(q.tasks, id)
	}
	return q.inside.Wrap("remove", err)
}

// Stats counts the tasks of the queue. Idle is 0.
func (q *Queue) Stats(ctx context.Context) (s queue.Stats, err error) {
	if err = q.ready(ctx); err != nil {
		return s, q.inside.Wrap("stats", err)
	}
	dead := q.dead()
	q.mu.Lock()
	defer q.mu.Unlock()
	s.Dead = len(dead)
	live := map[string]bool{} // keys with an earlier task
	for _, t := range q.inLineLocked() {
		switch {
		case t.running != nil:
			s.InFlight++
		case t.Key != "" && t.line > 0 && live[t.Key]:
			s.Behind++
		case t.due.After(time.Now()):
			s.Delayed++
		default:
			s.Ready++
			s.Oldest = max(s.Oldest, time.Since(t.due))
		}
		live[t.Key] = live[t.Key] || t.line > 0
	}
	return s, nil
}

// inLineLocked returns the live tasks, in the order of their keys. Those that
// have not joined come last.
func (q *Queue) inLineLocked() (all []*task) {
	for _, t := range q.tasks {
		if t.isLive() {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *task) int {
		if (a.line == 0) != (b.line == 0) {
			return int(b.line - a.line)
		}
		return int(a.line - b.line)
	})
	return all
}

// DeadLetters returns the dead letters, the oldest first.
func (q *Queue) DeadLetters(ctx context.Context) iter.Seq2[queue.DeadTask, error] {
	return func(yield func(queue.DeadTask, error) bool) {
		if err := q.ready(ctx); err != nil {
			yield(queue.DeadTask{}, q.inside.Wrap("dead letters", err))
			return
		}
		for _, t := range q.dead() {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// dead returns the dead letters that are kept.
func (q *Queue) dead() (all []queue.DeadTask) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, t := range q.tasks {
		switch {
		case t.died.IsZero():
		case time.Since(t.died) >= q.settings.Age:
			delete(q.tasks, id)
		default:
			all = append(all, queue.DeadTask{
				Task: t.Task, EnqueuedAt: t.enqueued, DiedAt: t.died, Attempts: t.attempts, Reason: t.reason,
			})
		}
	}
	slices.SortFunc(all, func(a, b queue.DeadTask) int { return a.DiedAt.Compare(b.DiedAt) })
	return all[max(0, len(all)-q.settings.Letters):]
}

// Requeue queues dead letters once more, as new tasks that are due immediately.
// It returns how many there were.
func (q *Queue) Requeue(ctx context.Context, ids ...string) (queued int, err error) {
	if err = q.ready(ctx); err != nil {
		return 0, q.inside.Wrap("requeue", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		t := q.tasks[id]
		if t == nil || t.died.IsZero() {
			continue
		}
		now, place := time.Now(), q.nextLocked()
		q.tasks[id] = &task{Task: t.Task, enqueued: now.Add(-t.Delay), due: now, place: place, line: place}
		queued++
	}
	return queued, nil
}

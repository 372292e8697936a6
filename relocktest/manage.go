package relocktest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/relock-go/relock"
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
		err = errs.Join(queue.ErrNotFound, fmt.Errorf("%.64q", id))
	case t.running != nil:
		err = errs.Join(queue.ErrInFlight, fmt.Errorf("%.64q", id))
	default:
		delete(q.tasks, id)
	}
	return q.inside.Wrap("remove", err)
}

// Stats counts the tasks of the queue. Idle and Overdue are 0.
func (q *Queue) Stats(ctx context.Context) (s queue.Stats, err error) {
	if err = q.ready(ctx); err != nil {
		return s, q.inside.Wrap("stats", err)
	}
	counts := map[queue.State]int{}
	for _, t := range q.infos() {
		counts[t.State]++
		if t.State == queue.StateReady {
			s.Oldest = max(s.Oldest, time.Since(t.Due))
		}
	}
	s.Ready, s.Delayed, s.InFlight = counts[queue.StateReady], counts[queue.StateDelayed], counts[queue.StateInFlight]
	s.Behind, s.Dead = counts[queue.StateBehind], counts[queue.StateDead]
	q.mu.Lock()
	defer q.mu.Unlock()
	s.Paused, s.PausedKeys = q.paused, len(q.pausedKeys)
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
				Interruptions: t.interruptions,
			})
		}
	}
	slices.SortFunc(all, func(a, b queue.DeadTask) int { return a.DiedAt.Compare(b.DiedAt) })
	return all[max(0, len(all)-q.settings.Letters):]
}

// Requeue queues dead letters once more, as new tasks that are due immediately.
// It returns the number queued.
func (q *Queue) Requeue(ctx context.Context, ids ...string) (queued int, err error) {
	if err = q.ready(ctx); err == nil && slices.Contains(ids, "") {
		err = fmt.Errorf("%w: ids[%d]: is empty", relock.ErrInvalid, slices.Index(ids, ""))
	}
	if err != nil {
		return 0, q.inside.Wrap("requeue", err)
	}
	return q.revive(ids), nil
}

// RequeueDied queues the dead letters once more that died at from or later, and
// before until. A zero time is no bound. It returns the number queued.
func (q *Queue) RequeueDied(ctx context.Context, from, until time.Time) (queued int, err error) {
	if err = q.ready(ctx); err == nil && !until.IsZero() && until.Before(from) {
		err = fmt.Errorf("%w: until: %v is before from, %v", relock.ErrInvalid, until, from)
	}
	if err != nil {
		return 0, q.inside.Wrap("requeue", err)
	}
	var ids []string
	for _, t := range q.dead() {
		if !t.DiedAt.Before(from) && (until.IsZero() || t.DiedAt.Before(until)) {
			ids = append(ids, t.ID)
		}
	}
	return q.revive(ids), nil
}

// revive queues those of these tasks that are dead letters.
func (q *Queue) revive(ids []string) (queued int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		t := q.tasks[id]
		if t == nil || t.died.IsZero() {
			continue
		}
		now, place := time.Now(), q.nextLocked()
		q.tasks[id] = &task{
			Task: t.Task, enqueued: now.Add(-t.Delay), due: now, ticket: place, place: place, line: place,
		}
		queued++
	}
	return queued
}

package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// What one script puts at most. A larger task goes alone.
const (
	maxTogether = 64
	maxBytes    = 1 << 20
)

// Enqueue queues tasks, in their order. It sends scripts of up to 64 tasks and
// 1 MiB. Each task is queued, or named in the error:
//
//   - [*DuplicateError] has the IDs that are in use;
//   - [relock.ErrInvalid] names the task and its field;
//   - after [relock.ErrUnconfirmed] a script was not answered. Its tasks may be
//     queued. Enqueue the same IDs again, which is safe;
//   - after any other error its tasks, and those after them, are not queued.
//
// A request that is executed twice queues a task once. If the task was already
// done in between, it is done again, unless [WithUnique] is given.
func (q *Queue) Enqueue(ctx context.Context, tasks ...Task) error {
	if err := q.ready(ctx); err != nil {
		return q.wrap("enqueue", err)
	}
	e := enqueuing{queue: q}
	if len(tasks) > 1 {
		e.used = make(map[string]bool, len(tasks))
	}
	for i := range tasks {
		e.add(ctx, i, tasks[i])
	}
	e.send(ctx)
	return q.wrap("enqueue", e.result())
}

// enqueuing is one call of Enqueue.
type enqueuing struct {
	queue  *Queue
	used   map[string]bool
	ready  []Task // for the next script
	bodies [][]byte
	size   int

	duplicates []string
	unsent     []string
	mistakes   []error
	failed     error
}

// add checks a task and puts it into the next script. It sends the one before
// if that is full.
func (e *enqueuing) add(ctx context.Context, i int, t Task) {
	var m lockspec.Problems
	if t.check(&m); m.Err() != nil {
		e.mistakes = append(e.mistakes, fmt.Errorf("tasks[%d] %.64q: %w", i, t.ID, m.Err()))
		return
	}
	if t.ID == "" {
		t.ID = rand.Text()
	}
	if e.used[t.ID] {
		e.duplicates = append(e.duplicates, t.ID)
		return
	}
	if e.used != nil {
		e.used[t.ID] = true
	}
	body := t.body()
	if len(e.ready) == maxTogether || e.size+len(body) > maxBytes {
		e.send(ctx)
	}
	e.ready, e.bodies, e.size = append(e.ready, t), append(e.bodies, body), e.size+len(body)
}

// send sends a script with what is ready. After an error nothing more is sent.
func (e *enqueuing) send(ctx context.Context) {
	tasks, bodies := e.ready, e.bodies
	e.ready, e.bodies, e.size = nil, nil, 0
	if len(tasks) == 0 {
		return
	}
	if e.failed != nil {
		e.unsent = append(e.unsent, idsOf(tasks)...)
		return
	}
	o, d := e.put(ctx, tasks, bodies)
	answers, err := answersOf(o)
	if err == nil && len(answers) != len(tasks) {
		err = fmt.Errorf("%d answers for %d tasks", len(answers), len(tasks))
	}
	if err != nil {
		o.Err = err
		e.failed = unconfirmed(ctx, o, d)
		e.unsent = append(e.unsent, idsOf(tasks)...)
		return
	}
	for i, t := range tasks {
		e.read(ctx, &t, answers[i])
	}
}

// answersOf returns the answers of a script. A single one may be a number.
func answersOf(o driver.Result) ([]int64, error) {
	if n, ok := o.Reply.(int64); ok {
		return []int64{n}, o.Err
	}
	return driver.Int64s(o.Reply, o.Err)
}

// put sends one script. Tasks without keys have one that takes less time.
func (e *enqueuing) put(ctx context.Context, tasks []Task, bodies [][]byte) (driver.Result, script.Indeterminate) {
	q := e.queue
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	args := append(make([]any, 0, 2+3*len(tasks)), nonce)
	plain := q.set.unique == 0 && !slices.ContainsFunc(tasks, func(t Task) bool { return t.Key != "" })
	if !plain {
		args = append(args, int(min(q.set.unique, 1)))
	}
	for i := range tasks {
		args = append(args, tasks[i].ID, tasks[i].delay(), bodies[i])
	}
	if plain {
		return q.runOn(ctx, script.TaskPut, q.putKeys, args)
	}
	return q.runOn(ctx, script.TaskEnqueue, q.enqueueKeys, args)
}

// read takes the answer for one task.
func (e *enqueuing) read(ctx context.Context, t *Task, answer int64) {
	if answer != script.Ours {
		e.duplicates = append(e.duplicates, t.ID)
		return
	}
	if hook := e.queue.set.observer.Enqueued; hook != nil {
		hook(ctx, Enqueued{e.queue.name, t.ID, t.Key, t.Delay})
	}
}

// result returns all that went wrong in one error.
func (e *enqueuing) result() error {
	all := e.mistakes
	if len(e.duplicates) > 0 {
		all = append(all, &DuplicateError{e.duplicates})
	}
	if e.failed != nil {
		all = append(all, fmt.Errorf("%s: %w", named(e.unsent), e.failed))
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

func idsOf(tasks []Task) []string {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids
}

package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// maxBytes is how much one script puts at most. A larger task goes alone.
const maxBytes = 1 << 20

// Enqueue queues tasks, in their order. It sends scripts of up to 64 tasks and
// 1 MiB. It returns the IDs of the tasks in the same order: those that were
// given, and those that were drawn.
//
// If a task was not queued, or may not be, the error has an [*EnqueueError]
// that says which ones. It also matches each reason:
//
//   - [ErrDuplicate]: IDs are in use;
//   - [relock.ErrInvalid] names the task and its field;
//   - [relock.ErrUnconfirmed]: a script was not answered, or not the first
//     time. Its tasks may be queued, and those after them are not;
//   - after any other error the tasks of a script, and those after them, are
//     not queued.
//
// To repeat a call, set the ID of each task to the returned one. What is queued
// is a duplicate then. No IDs are returned if the call could not begin.
//
// A request that is executed twice queues a task once. If the task was already
// done in between, it is done again, unless [WithUnique] is given.
func (q *Queue) Enqueue(ctx context.Context, tasks ...Task) (ids []string, err error) {
	if err := q.ready(ctx); err != nil {
		return nil, q.wrap("enqueue", err)
	}
	e := enqueuing{queue: q, ids: make([]string, len(tasks))}
	if len(tasks) > 1 {
		e.used = make(map[string]bool, len(tasks))
	}
	for i := range tasks {
		e.add(ctx, i, tasks[i])
	}
	e.send(ctx)
	return e.ids, q.wrap("enqueue", e.result())
}

// enqueuing is one call of Enqueue.
type enqueuing struct {
	queue  *Queue
	ids    []string // of all tasks
	used   map[string]bool
	ready  []Task // for the next script
	bodies [][]byte
	size   int

	outcome  EnqueueError
	doubtful []string // of the unknown ones, those whose IDs were in use
	unsent   []string // that are not queued, or unknown, for want of an answer
	mistakes []error
	failed   error
}

// add checks a task and puts it into the next script. It sends the one before
// if that is full.
func (e *enqueuing) add(ctx context.Context, i int, t Task) {
	e.ids[i] = t.ID
	var m lockspec.Problems
	if t.check(&m); m.Err() != nil {
		e.mistakes = append(e.mistakes, fmt.Errorf("tasks[%d] %.64q: %w", i, t.ID, m.Err()))
		return
	}
	t.fixAt()
	if t.ID == "" {
		t.ID = rand.Text()
		e.ids[i] = t.ID
	}
	if e.used[t.ID] {
		e.outcome.Duplicates = append(e.outcome.Duplicates, t.ID)
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
	answers, err := driver.Int64s(o.Reply, o.Err)
	if err == nil && len(answers) != len(tasks) {
		err = fmt.Errorf("%d answers for %d tasks", len(answers), len(tasks))
	}
	if err != nil {
		e.fail(ctx, tasks, o, d, err)
		return
	}
	for i, t := range tasks {
		e.read(ctx, &t, answers[i], d)
	}
}

// fail notes that a script has failed, or that its answer cannot be read.
func (e *enqueuing) fail(ctx context.Context, tasks []Task, o driver.Result, d script.Indeterminate, why error) {
	if o.Err == nil {
		d.Last = o.Sent // it was executed
	}
	o.Err = why
	e.failed = unconfirmed(ctx, o, d)
	e.unsent = append(e.unsent, idsOf(tasks)...)
	if !d.Last.IsZero() {
		e.outcome.Unknown = append(e.outcome.Unknown, idsOf(tasks)...)
	}
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

// read takes the answer for one task. If an earlier copy was not answered, a
// task whose id is done may be the one that it has queued.
func (e *enqueuing) read(ctx context.Context, t *Task, answer int64, d script.Indeterminate) {
	switch {
	case answer == script.OK:
		e.outcome.Queued = append(e.outcome.Queued, t.ID)
	case d.Exists() && e.queue.set.unique > 0:
		e.doubtful = append(e.doubtful, t.ID)
		e.outcome.Unknown = append(e.outcome.Unknown, t.ID)
		return
	default:
		e.outcome.Duplicates = append(e.outcome.Duplicates, t.ID)
		return
	}
	if hook := e.queue.set.observer.Enqueued; hook != nil {
		hook(ctx, Enqueued{e.queue.name, t.ID, t.Key, t.Delay})
	}
}

// result returns what became of the tasks, or nil if all are queued.
func (e *enqueuing) result() error {
	all := e.mistakes
	if len(e.outcome.Duplicates) > 0 {
		all = append(all, fmt.Errorf("%w: %s", ErrDuplicate, named(e.outcome.Duplicates)))
	}
	if len(e.doubtful) > 0 {
		all = append(all, fmt.Errorf("%s: %w", named(e.doubtful), errs.Join(relock.ErrUnconfirmed, errSentTwice)))
	}
	if e.failed != nil {
		all = append(all, fmt.Errorf("%s: %w", named(e.unsent), e.failed))
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		e.outcome.Err = all[0]
	default:
		e.outcome.Err = errors.Join(all...)
	}
	outcome := e.outcome
	return &outcome
}

var errSentTwice = errors.New("sent twice, and the id was in use")

func idsOf(tasks []Task) []string {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids
}

package queue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/taskdouble"
)

// double is what a double of the queue shares with it.
type double struct{ queue *Queue }

var _ = taskdouble.Provide(func(name string, options any) (any, error) {
	q := &Queue{base: base{name: name, set: defaults(), due: newSignal()}}
	var m lockspec.Problems
	lockspec.CheckName(&m, "name", name)
	for i, opt := range options.([]Option) {
		if m.Check(opt != nil, "opts[%d]: Option is nil", i); opt != nil {
			opt(&q.set)
		}
	}
	q.set.check(&m)
	q.engine = &host{Logger: slog.Default()}
	return double{q}, q.wrap("new queue", m.Err())
})

// Wrap adds the operation and the name of the queue to err.
func (d double) Wrap(op string, err error) error { return d.queue.wrap(op, err) }

// Settings returns the options.
func (d double) Settings() taskdouble.Settings {
	s := &d.queue.set
	return taskdouble.Settings{
		Lease: s.lease, Fatal: s.fatal, Unique: s.unique, Letters: s.letters, Age: s.age, Limit: s.inFlight,
	}
}

// Check returns a task with its Delay, and what is wrong with it.
func (d double) Check(i int, t Task) (Task, error) {
	var m lockspec.Problems
	if t.check(&m); m.Err() != nil {
		return t, fmt.Errorf("tasks[%d] %.64q: %w", i, t.ID, m.Err())
	}
	t.fixAt()
	return t, nil
}

// Enqueued notifies the observer.
func (d double) Enqueued(ctx context.Context, t Task) {
	if hook := d.queue.set.observer.Enqueued; hook != nil {
		hook(ctx, Enqueued{d.queue.name, t.ID, t.Key, t.Delay})
	}
}

// Deliver returns a delivery of the task. chosen returns what becomes of the
// task, once the lease is settled.
func (d double) Deliver(
	ctx context.Context, t Task, of taskdouble.Delivery,
) (_ *Delivery, chosen func() (verb string, argument any)) {
	q := d.queue
	p := &protocol{queue: &q.base, id: t.ID, fence: of.Fence}
	one := &Delivery{
		Task: t, Attempt: of.Attempt, EnqueuedAt: of.EnqueuedAt, Interruptions: of.Interruptions,
		queue: &q.base, lease: of.Lease, protocol: p, start: time.Now(), values: ctx, announced: true,
	}
	if hook := q.set.observer.Received; hook != nil {
		late := max(0, one.start.Sub(of.EnqueuedAt.Add(t.Delay)))
		hook(ctx, Received{q.name, t.ID, t.Key, of.Attempt, late})
	}
	return one, func() (string, any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.verb, p.argument
	}
}

// Handle runs fn for a delivery, and settles it as Process does.
func (d double) Handle(ctx context.Context, one *Delivery, fn func(context.Context, *Delivery) error) {
	p := newProcess(ctx, d.queue, fn, processSettings{workers: 1})
	p.life, p.stop = context.WithCancelCause(ctx)
	defer p.stop(nil)
	p.handle(&run{of: &p.terms, delivery: one})
}

package queue

import (
	"context"
	"fmt"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockspec"
)

// Queue is a task queue in Redis. All queues of one name and prefix, in any
// process, share their tasks. It is safe for concurrent use, and needs no
// closing.
type Queue struct {
	base

	receiver *receiver
	behind   *receiver // of tasks that are behind locks
	runs     runs      // of all calls of Process
}

// New returns the queue with this name, 1 to 1024 bytes. It does no I/O. It
// returns all mistakes in the name and the options in one error, which matches
// [relock.ErrInvalid].
func New(name string, client *relock.Client, opts ...Option) (*Queue, error) {
	q := &Queue{base: base{name: name, set: defaults(), due: newSignal()}}
	var m lockspec.Problems
	lockspec.CheckName(&m, "name", name)
	for i, opt := range opts {
		if m.Check(opt != nil, "opts[%d]: Option is nil", i); opt != nil {
			opt(&q.set)
		}
	}
	q.set.check(&m)
	q.engine = hostOf(engine.Of(client))
	m.CheckClient("client", client == nil, q.engine != nil)
	if err := m.Err(); err != nil {
		return nil, q.wrap("new queue", err)
	}
	q.connect()
	settles := &settler{queue: &q.base}
	q.receiver = newReceiver(settles, q.caller, q.due)
	q.behind = newReceiver(settles, q.engine.Queue.NewHold(), newSignal())
	return q, nil
}

// Name returns the name of the queue.
func (q *Queue) Name() string {
	if q == nil {
		return ""
	}
	return q.name
}

// String returns "queue" and the quoted name.
func (q *Queue) String() string { return fmt.Sprintf("queue %q", q.Name()) }

// ready returns an error if a call cannot begin.
func (q *Queue) ready(ctx context.Context) error {
	if q == nil {
		return errByHand
	}
	return q.base.ready(ctx)
}

// wrap adds the operation and the name of the queue to err.
func (q *Queue) wrap(op string, err error) error { return wrapped(op, q.Name(), err) }

package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Queue is a task queue in Redis. All queues of one name and prefix, in any
// process, share their tasks. It is safe for concurrent use, and needs no
// closing.
type Queue struct {
	name   string
	redis  string // its name in Redis, from which its keys are made
	engine *host  // nil if it was made by hand
	set    settings
	spec   lockspec.Spec // of the leases of its deliveries

	receiver *receiver
	behind   *receiver // of tasks that are behind locks
	settler  *settler
	runs     runs // of all calls of Process
	// The keys of the scripts that are sent most.
	renewKeys, enqueueKeys, putKeys []string
}

// New returns the queue with this name, 1 to 1024 bytes. It does no I/O. It
// returns all mistakes in the name and the options in one error, which matches
// [relock.ErrInvalid].
func New(name string, client *relock.Client, opts ...Option) (*Queue, error) {
	q := &Queue{name: name, set: defaults()}
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
	q.redis = q.engine.Prefix + "queue:{" + name + "}"
	q.spec = lockspec.Spec{Kind: lockspec.Delivery, Watched: true, Lease: q.set.lease}
	q.receiver, q.behind = newReceiver(q), newReceiver(q)
	q.enqueueKeys = script.TaskEnqueue.On(q.redis, "")
	q.putKeys = script.TaskPut.On(q.redis, "")
	q.renewKeys = script.TaskRenew.On(q.redis, "")
	q.settler = &settler{queue: q, keys: script.TaskSettle.On(q.redis, "")}
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
	switch {
	case q == nil || q.engine == nil:
		return fmt.Errorf("%w: queue: was not made by New", relock.ErrInvalid)
	case ctx == nil:
		return fmt.Errorf("%w: context: is nil", relock.ErrInvalid)
	case q.engine.Life.Err() != nil:
		return relock.ErrClosed
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	}
	return nil
}

// run sends a script for a caller, with the time that a command has.
func (q *Queue) run(ctx context.Context, s *script.TaskScript, args ...any) (driver.Result, script.Indeterminate) {
	return q.runOn(ctx, s, s.On(q.redis, q.receiver.name), args)
}

func (q *Queue) runOn(
	ctx context.Context, s *script.TaskScript, keys []string, args []any,
) (driver.Result, script.Indeterminate) {
	return script.Run(ctx, q.engine.Driver, driver.Limits{},
		script.Call{Script: s.Script, Together: keys, Args: args}, nil)
}

// unconfirmed returns the error of a request that may have been executed, and
// must not be sent again without the caller's knowledge.
func unconfirmed(ctx context.Context, o driver.Result, d script.Indeterminate) error {
	err := driver.ContextErr(ctx, o.Err)
	if !d.Last.IsZero() {
		return errs.Join(relock.ErrUnconfirmed, err)
	}
	return err
}

// pollPeriod is how often an idle receiver asks without a message. unheard is
// the same while no message can reach it.
const (
	pollPeriod = time.Second
	unheard    = lockspec.DefaultPollInterval
)

package queue

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Process receives tasks, and runs fn for each, until ctx is cancelled. The
// context of fn has the values of ctx, and is cancelled when the delivery is
// lost or settled, when the lock of [WithLocker] is lost, and after
// [WithTimeout] and [WithGrace].
//
// If fn returns nil, the task is acknowledged. If it returns an error, panics
// or ends its goroutine, the task is due again after [WithBackoff]. After the
// last attempt, and after [Permanent], it becomes a dead letter. What fn has
// settled itself stays. If the delivery is lost meanwhile, nothing is sent.
//
// A function that is overdue, see [WithTimeout], may still run while another
// process attempts its task. In the same Queue it does not: the task is passed
// over, which counts as a failed attempt.
//
// When ctx is cancelled, nothing more is received, and what no function got is
// returned to the queue before Process returns. Functions go on for
// [WithGrace]; then their contexts are cancelled. A task whose function returns
// an error after that is released, uncounted. Process returns nil when all have
// returned. A function that does not return within a second is left behind: its
// task is due again when its lease ends, and Process returns an error that
// names it.
//
// With [relock.WithLogger], each failed attempt is logged as INFO, and each
// dead letter as WARN, with queue, id, key, attempt and reason.
//
// Temporary failures, see [relock.IsRetryableErr], are ridden out. Any other
// one ends Process as the end of ctx does, and is returned: [relock.ErrDenied]
// and [relock.ErrClosed], for example.
func (q *Queue) Process(ctx context.Context, fn func(context.Context, *Delivery) error, opts ...ProcessOption) error {
	s := processSettings{workers: defaultWorkers, grace: defaultGrace}
	var m lockspec.Problems
	for i, opt := range opts {
		if m.Check(opt != nil, "opts[%d]: ProcessOption is nil", i); opt != nil {
			opt(&s)
		}
	}
	m.Check(fn != nil, "fn: is nil")
	s.check(&m)
	if err := m.Err(); err != nil {
		return q.wrap("process", err)
	}
	if err := q.ready(ctx); err != nil {
		if ctx != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // as if it had been cancelled a moment later
		}
		return q.wrap("process", err)
	}
	return newProcess(ctx, q, fn, s).run(ctx)
}

// process is one call of Process.
type process struct {
	terms

	receiver *receiver
	fn       func(context.Context, *Delivery) error
	set      processSettings
	pool     *pool
	gates    gates
}

func newProcess(ctx context.Context, q *Queue, fn func(context.Context, *Delivery) error, s processSettings) *process {
	p := &process{receiver: q.receiver, fn: fn, set: s}
	ahead := aheadOf(s.workers, q.set.inFlight)
	p.terms = terms{
		queue: &q.base, runs: &q.runs, slots: newSlots(q.engine.Life, s.workers, ahead),
		timeout: s.timeout, limit: limitOf(s.timeout, q.set.lease),
	}
	p.life, p.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	p.pool = newPool(s.workers+ahead, p.limit, p.handle)
	p.gates = gates{of: &p.terms, pool: p.pool, locker: s.locker, behind: q.behind, open: map[string]*gate{}}
	return p
}

// run receives until ctx is cancelled, and then waits for the functions.
func (p *process) run(ctx context.Context) error {
	defer p.stop(nil)
	defer p.pool.stopAlarm()
	receiving, cancel := context.WithCancel(ctx)
	p.gates.receiving = receiving
	p.receiver.enter(true)
	err := p.fetch(ctx)
	cancel()
	p.pool.close()
	p.receiver.leave(true)
	if ctx.Err() != nil {
		err = nil
	}
	return p.queue.wrap("process", errors.Join(err, p.pool.drain(p.set.grace, p.stop)))
}

// fetch receives for all free workers together. It returns when ctx is
// cancelled, or after an error that does not pass.
func (p *process) fetch(ctx context.Context) error {
	pause := firstPause
	var out outage.Call
	defer func() { p.queue.engine.Outages.End(&out, 0) }()
	for {
		want, err := p.slots.take(ctx)
		if err != nil {
			return err
		}
		got, err := p.receiver.receive(ctx, ask{want: want, then: continues})
		p.slots.noteFound(len(got.deliveries) == want)
		p.slots.put(want - len(got.deliveries))
		for _, d := range got.deliveries {
			p.pool.begin(&run{of: &p.terms, delivery: d, start: time.Now(), slot: p.slots.free})
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			p.queue.noteAnswer(&out)
		}
		switch {
		case err != nil && !relock.IsRetryableErr(err):
			return err
		case err != nil:
			p.queue.noteOutage(&out, err)
			err = p.queue.wait(ctx, pause)
			pause = min(2*pause, pollPeriod)
		case !got.again && len(got.deliveries) < want:
			err = p.receiver.clock.sleep(ctx, got.next)
			pause = firstPause
		}
		if err != nil {
			return err
		}
	}
}

const firstPause = 20 * time.Millisecond

// noteOutage logs, if that is due, that Process gets no answer.
func (b *base) noteOutage(c *outage.Call, why error) {
	b.engine.Outages.Failed(c, b.address(why), 1, why)
}

func (b *base) noteAnswer(c *outage.Call) {
	b.engine.Outages.Answered(c, func() string { return b.address(nil) })
}

// address returns the address of the server at which a receive has ended with
// err.
func (b *base) address(err error) string {
	return driver.AddressOf(b.engine.Driver, b.renewKeys[0], err)
}

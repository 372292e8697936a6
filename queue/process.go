package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Process receives tasks, and runs fn for each, until ctx is cancelled. The
// context of fn has the values of ctx, and is cancelled when the delivery is
// lost, and after [WithTimeout] and [WithGrace].
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
	queue *Queue
	fn    func(context.Context, *Delivery) error
	set   processSettings
	slots chan struct{} // has a value for each free worker
	ahead chan struct{} // has one for each settle beside which a worker may be free already
	gates gates

	// receiving is the caller's context, and ends with the receives.
	receiving context.Context
	// life is the context of the functions: with the values of the caller's,
	// and cancelled after the grace.
	life context.Context
	stop context.CancelCauseFunc

	group   sync.WaitGroup
	next    chan *run // for workers that wait; has room for all
	mu      sync.Mutex
	closed  bool // next is closed: a worker does not wait
	waiting int  // workers that wait, or are about to
	running map[*run]struct{}
	alarm   alarm
	scarce  atomic.Int32 // how many receives must find all that they want first, see freeAhead
}

func newProcess(ctx context.Context, q *Queue, fn func(context.Context, *Delivery) error, s processSettings) *process {
	p := &process{queue: q, fn: fn, set: s, running: map[*run]struct{}{}}
	p.slots, p.ahead = filled(s.workers), filled(q.aheadOf(s.workers))
	p.next = make(chan *run, s.workers+cap(p.ahead))
	p.scarce.Store(plenty)
	p.gates = gates{process: p, open: map[string]*gate{}}
	p.life, p.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	return p
}

// run receives until ctx is cancelled, and then waits for the functions.
func (p *process) run(ctx context.Context) error {
	defer p.stop(nil)
	defer p.stopAlarm()
	receiving, cancel := context.WithCancel(ctx)
	p.receiving = receiving
	p.queue.receiver.enter(true)
	err := p.fetch(ctx)
	cancel()
	p.closeNext()
	p.queue.receiver.leave(true)
	if ctx.Err() != nil {
		err = nil
	}
	return p.queue.wrap("process", errors.Join(err, p.drain()))
}

// fetch receives for all free workers together. It returns when ctx is
// cancelled, or after an error that does not pass.
func (p *process) fetch(ctx context.Context) error {
	pause := firstPause
	var out outage.Call
	defer func() { p.queue.engine.Outages.End(&out, 0) }()
	for {
		want, err := p.free(ctx)
		if err != nil {
			return err
		}
		got, err := p.queue.receiver.receive(ctx, ask{want: want, then: continues})
		p.noteFound(len(got.deliveries) == want)
		for range want - len(got.deliveries) {
			p.slots <- struct{}{}
		}
		for _, d := range got.deliveries {
			p.begin(&run{process: p, delivery: d, start: time.Now(), slot: p.slots})
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
			err = p.queue.receiver.clock.sleep(ctx, got.next)
			pause = firstPause
		}
		if err != nil {
			return err
		}
	}
}

const firstPause = 20 * time.Millisecond

// noteOutage logs, if that is due, that Process gets no answer.
func (q *Queue) noteOutage(c *outage.Call, why error) {
	q.engine.Outages.Failed(c, q.address(why), 1, why)
}

func (q *Queue) noteAnswer(c *outage.Call) {
	q.engine.Outages.Answered(c, func() string { return q.address(nil) })
}

// address returns the address of the server at which a receive has ended with
// err.
func (q *Queue) address(err error) string {
	return driver.AddressOf(q.engine.Driver, q.renewKeys[0], err)
}

// closeNext ends the workers that wait.
func (p *process) closeNext() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	close(p.next)
}

// begin gives a delivery to a worker that waits, or starts another one. A new
// goroutine takes longer: its stack must grow.
func (p *process) begin(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[r] = struct{}{}
	p.alarmLocked(r.start.Add(p.limit()))
	if p.waiting > 0 && !p.closed {
		p.waiting--
		p.next <- r
		return
	}
	p.group.Go(func() {
		for r := r; r != nil; r = <-p.next {
			p.work(r)
		}
	})
}

// work handles one delivery. The worker then waits, unless its function has
// ended the goroutine.
func (p *process) work(r *run) {
	waits := 0
	defer func() { p.end(r, waits) }()
	p.handle(r)
	waits = 1
}

// end returns the slot of a run. waiting is how many workers wait after it.
func (p *process) end(r *run, waiting int) {
	p.mu.Lock()
	delete(p.running, r)
	p.waiting += waiting
	p.mu.Unlock()
	if r.ended != nil {
		close(r.ended)
	}
	r.slot <- struct{}{}
}

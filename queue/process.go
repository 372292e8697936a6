package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
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
// When ctx is cancelled, nothing more is received. Functions go on for
// [WithGrace]; then their contexts are cancelled. A task whose function returns
// an error after that is released, uncounted. Process returns nil when all have
// returned. A function that does not return within a second is left behind: its
// task is due again when its lease ends, and Process returns an error that
// names it.
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

	// life is the context of the functions: with the values of the caller's,
	// and cancelled after the grace.
	life context.Context
	stop context.CancelCauseFunc

	group   sync.WaitGroup
	next    chan *Delivery // for workers that wait; closed when no more come
	mu      sync.Mutex
	waiting int // workers that wait, or are about to
	running map[*Delivery]struct{}
}

// errStopped is the cause of the end of functions that the grace was too short
// for.
var errStopped = errors.New("the grace period of Process is over")

func newProcess(ctx context.Context, q *Queue, fn func(context.Context, *Delivery) error, s processSettings) *process {
	p := &process{queue: q, fn: fn, set: s, running: map[*Delivery]struct{}{}}
	p.slots, p.next = make(chan struct{}, s.workers), make(chan *Delivery, s.workers)
	for range s.workers {
		p.slots <- struct{}{}
	}
	p.life, p.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	return p
}

// run receives until ctx is cancelled, and then waits for the functions.
func (p *process) run(ctx context.Context) error {
	defer p.stop(nil)
	p.queue.receiver.enter(true)
	err := p.fetch(ctx)
	close(p.next)
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
	for {
		want, err := p.free(ctx)
		if err != nil {
			return err
		}
		got, err := p.queue.receiver.receive(ctx, want, continues)
		for range want - len(got.deliveries) {
			p.slots <- struct{}{}
		}
		for _, d := range got.deliveries {
			p.begin(d)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !relock.IsRetryableErr(err):
			return err
		case err != nil:
			err = p.queue.receiver.wait(ctx, pause, nil)
			pause = min(2*pause, pollPeriod)
		case !got.again && len(got.deliveries) < want:
			err = p.queue.receiver.sleep(ctx, got.next)
			pause = firstPause
		}
		if err != nil {
			return err
		}
	}
}

const firstPause = 20 * time.Millisecond

// free waits for a free worker. It takes all that are free by then, and returns
// how many.
func (p *process) free(ctx context.Context) (want int, err error) {
	select {
	case <-p.slots:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-p.queue.engine.Life.Done():
		return 0, relock.ErrClosed
	}
	runtime.Gosched() // others of the same batch are about to be free
	for want = 1; want < maxReceive; want++ {
		select {
		case <-p.slots:
		default:
			return want, nil
		}
	}
	return want, nil
}

// begin gives a delivery to a worker that waits, or starts another one. A new
// goroutine takes longer: its stack must grow.
func (p *process) begin(d *Delivery) {
	p.mu.Lock()
	p.running[d] = struct{}{}
	waits := p.waiting > 0
	if waits {
		p.waiting--
	}
	p.mu.Unlock()
	if waits {
		p.next <- d
		return
	}
	p.group.Go(func() {
		for d := d; d != nil; d = <-p.next {
			p.work(d)
		}
	})
}

// work handles one delivery. The worker then waits, unless its function has
// ended the goroutine.
func (p *process) work(d *Delivery) {
	waits := 0
	defer func() { p.end(d, waits) }()
	p.handle(d)
	waits = 1
}

// end frees the slot of a delivery. waiting is how many workers wait after it.
func (p *process) end(d *Delivery, waiting int) {
	p.mu.Lock()
	delete(p.running, d)
	p.waiting += waiting
	p.mu.Unlock()
	p.slots <- struct{}{}
}

// drain waits for the functions: for the grace, and for a second more after
// their contexts were cancelled.
func (p *process) drain() error {
	done := make(chan struct{})
	go func() { // ends with the last function, however late that returns
		defer close(done)
		p.group.Wait()
	}()
	if endedWithin(done, p.set.grace) {
		return nil
	}
	p.stop(errStopped)
	if endedWithin(done, lastMoment) {
		return nil
	}
	var left []string
	p.mu.Lock()
	defer p.mu.Unlock()
	for d := range p.running {
		d.hold.StopRenewing()
		left = append(left, d.ID)
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("functions have not returned, their tasks are due again when their leases end: %s", named(left))
}

// lastMoment is how long a function may take to return after its context was
// cancelled.
const lastMoment = time.Second

func endedWithin(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

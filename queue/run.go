package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// lastMoment is how long a function may take to return after its context was
// cancelled.
const lastMoment = time.Second

// run is a delivery in the hands of a worker of Process: hooks, function,
// back-off and settle. The alarm of the process finds that one of them hangs.
type run struct {
	process  *process
	delivery *Delivery
	start    time.Time
	lock     string        // that a gate has acquired for the task; "" for none
	held     relock.Hold   // of that
	slot     chan struct{} // to which its value returns at its end
	ended    chan struct{} // closed at its end; nil if nobody waits for that

	mu        sync.Mutex
	cancel    context.CancelCauseFunc // of the function; nil before that is prepared
	cancelled time.Time               // when its time was over; zero before
	reporting chan struct{}           // of a run that is overdue: closed when that is reported and settled
	over      bool                    // it has ended, or Process no longer waits for it
}

// cancelWith sets the function that ends the context of the run.
func (r *run) cancelWith(cancel context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel = cancel
	if !r.cancelled.IsZero() {
		cancel(r.timedOut())
	}
}

func (r *run) timedOut() error {
	return fmt.Errorf("WithTimeout of %v: %w", r.process.set.timeout, context.DeadlineExceeded)
}

// expire cancels the context of a run whose time is over at now. If it has not
// ended a moment later, it is overdue. expire returns when to look again, or
// zero.
func (r *run) expire(now time.Time) (again time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	timeout, due := r.process.set.timeout, r.start.Add(r.process.limit())
	switch {
	case r.over || r.reporting != nil:
		return time.Time{}
	case now.Before(due):
		return due
	case timeout > 0 && r.cancelled.IsZero():
		r.cancelled = now
		if r.cancel != nil {
			r.cancel(r.timedOut())
		}
		return now.Add(lastMoment)
	case timeout > 0 && now.Before(r.cancelled.Add(lastMoment)):
		return r.cancelled.Add(lastMoment)
	case r.delivery.doing.Load() == doingSettle: // which takes no longer than one command may
		return now.Add(lastMoment)
	}
	r.reporting = make(chan struct{})
	go r.report() // the worker waits for it
	return time.Time{}
}

// report settles the delivery of a run that is overdue, and reports it.
func (r *run) report() {
	defer close(r.reporting)
	p, d := r.process, r.delivery
	p.queue.runs.late(1)
	what := d.doing.String()
	_ = p.guarded(d, func() error { // which logs a panic
		p.queue.engine.Logger.Warn("relock: a function of a task still runs",
			d.about("what", what, "after", p.limit())...)
		if p.set.timeout > 0 && p.life.Err() == nil {
			p.settle(d, fmt.Errorf("still runs after %v: %w", p.set.timeout, context.DeadlineExceeded), Backoff)
		}
		if hook := p.queue.set.observer.Overdue; hook != nil {
			hook(d.values, Overdue{p.queue.name, d.ID, d.Key, d.Attempt, r.start, p.limit()})
		}
		return nil
	})
}

// stop makes the run one that is not overdue from now on. It returns nil, or,
// for one that was overdue, a channel that is closed once that was reported.
func (r *run) stop() (reporting <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	return r.reporting
}

// end ends the run, on its worker.
func (r *run) end() {
	reporting := r.stop()
	if reporting == nil {
		return
	}
	<-reporting
	q := r.process.queue
	q.runs.late(-1)
	q.engine.Logger.Info("relock: a function of a task that was overdue has returned",
		r.delivery.about("ran", time.Since(r.start))...)
}

// isOverdue reports whether the run was reported.
func (r *run) isOverdue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reporting != nil
}

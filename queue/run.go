package queue

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// lastMoment is how long a function may take to return after its context was
// cancelled.
const lastMoment = time.Second

// terms are what all runs of one call of Process share.
type terms struct {
	queue   *base
	runs    *runs
	slots   *slots
	timeout time.Duration // of the context of a function; 0 for none
	// limit is after what time that context is cancelled, or, without a
	// timeout, after what time the run is overdue.
	limit time.Duration
	// life is the context of the functions: with the values of the caller's,
	// and cancelled after the grace.
	life context.Context
	stop context.CancelCauseFunc
}

// patienceInLeases is after how many leases a run without WithTimeout is
// overdue. It is renewed for ever if it hangs.
const patienceInLeases = 100

// limitOf returns the limit of runs with this timeout.
func limitOf(timeout, lease time.Duration) time.Duration {
	if timeout > 0 {
		return timeout
	}
	return patienceInLeases * min(lease, math.MaxInt64/patienceInLeases)
}

// run is a delivery in the hands of a worker of Process: hooks, function,
// back-off and settle. The alarm of the pool finds that one of them hangs.
type run struct {
	of       *terms
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
	return fmt.Errorf("WithTimeout of %v: %w", r.of.timeout, context.DeadlineExceeded)
}

// expire cancels the context of a run whose time is over at now. If it has not
// ended a moment later, it is overdue. expire returns when to look again, or
// zero.
func (r *run) expire(now time.Time) (again time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	timeout, due := r.of.timeout, r.start.Add(r.of.limit)
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
	of, d := r.of, r.delivery
	of.runs.late(1)
	what := d.doing.String()
	_ = d.guarded(func() error { // which logs a panic
		of.queue.engine.Logger.Warn("relock: a function of a task still runs",
			d.about("what", what, "after", of.limit)...)
		if of.timeout > 0 && of.life.Err() == nil && !d.protocol.isSettled() {
			err := fmt.Errorf("still runs after %v: %w", of.timeout, context.DeadlineExceeded)
			d.logSettled(d.fail(of.life, err, Backoff))
		}
		if hook := of.queue.set.observer.Overdue; hook != nil {
			hook(d.values, Overdue{of.queue.name, d.ID, d.Key, d.Attempt, r.start, of.limit})
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
	r.of.runs.late(-1)
	r.of.queue.engine.Logger.Info("relock: a function of a task that was overdue has returned",
		r.delivery.about("ran", time.Since(r.start))...)
}

// isOverdue reports whether the run was reported.
func (r *run) isOverdue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reporting != nil
}

// attempt returns the number of the attempt.
func (r *run) attempt() int { return r.delivery.Attempt }

// exclusive runs the function unless one of the same ID runs in this Queue. For
// that it waits for a moment, as a function may settle before it returns.
func (r *run) exclusive(ctx context.Context, function func() error) error {
	runs, id := r.of.runs, r.delivery.ID
	for limit := time.Now().Add(busyPause); ; {
		earlier, returned := runs.begin(id, r)
		switch {
		case earlier == nil:
			defer runs.end(id)
			return function()
		case earlier.isOverdue():
			return fmt.Errorf("attempt %d: %w", earlier.attempt(), errHangs)
		case !endedBefore(ctx, returned, limit):
			return errRuns
		}
	}
}

// makesDue reports whether the settle of a run may be what the next receive
// needs: it makes the next task of its key due, or room for one.
func (r *run) makesDue() bool {
	return r.delivery.Key != "" || r.of.queue.set.inFlight > 0
}

// freeAhead frees the worker of a run whose function has returned nil, before
// its task is acknowledged: the next receive need not wait for that. The task
// of a gate has the lock until its end.
func (r *run) freeAhead() {
	if r.held == nil && r.delivery.Interruptions == 0 {
		r.slot = r.of.slots.freeAhead(r.slot, r.makesDue())
	}
}

// settledAhead has a receive look again that came before the settle, and may
// have found nothing.
func (r *run) settledAhead() {
	if r.slot == r.of.slots.ahead && r.makesDue() {
		r.of.queue.due.notify()
	}
}

package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// handle runs the function for a delivery, and settles it.
func (p *process) handle(r *run) {
	d := r.delivery
	ctx, cancel := context.WithCancelCause(p.life)
	defer cancel(nil)
	d.lease.CancelWith(cancel)
	r.cancelWith(cancel)
	defer r.end()
	err := errEnded
	defer func() {
		defer r.settledAhead()
		if err == nil {
			r.freeAhead()
		}
		p.finish(d, err)
	}()
	err = p.guarded(d, func() error {
		if !d.announce() {
			return nil // it is settled
		}
		return explained(ctx, r.exclusive(ctx, func() error { return p.attempt(ctx, r) }))
	})
}

// errEnded is the error of a function that has ended its goroutine, by
// [runtime.Goexit]: a test that fails does.
var errEnded = errors.New("the function has ended its goroutine")

// guarded runs code of the user for a delivery. A panic is logged, and is an
// error.
func (p *process) guarded(d *Delivery, run func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			stack := debug.Stack()
			err = fmt.Errorf("panic: %v\n%s", value, stack)
			p.queue.engine.Logger.Error("relock: a function of a task panicked",
				d.about("panic", value, "stack", string(stack))...)
		}
	}()
	return run()
}

// finish settles a delivery whose function has returned. If its error or
// WithBackoff panics or ends the goroutine, that is the error, and the default
// back-off counts.
func (p *process) finish(d *Delivery, err error) {
	failed := errEnded
	defer func() {
		if failed != nil {
			p.settle(d, failed, Backoff)
		}
	}()
	failed = p.guarded(d, func() error {
		p.settle(d, err, p.queue.set.backoff)
		return nil
	})
}

// explained adds to the error of a cancelled function why it was cancelled.
func explained(ctx context.Context, err error) error {
	why := context.Cause(ctx)
	if why == nil || !errors.Is(err, context.Canceled) || errors.Is(err, why) {
		return err
	}
	return errs.Join(why, err)
}

// settle settles a delivery, unless that was done. One that was lost sends
// nothing.
func (p *process) settle(d *Delivery, err error, backoff func(int, error) time.Duration) {
	if d.protocol.isSettled() {
		return
	}
	var busy behindLock
	switch {
	case err == nil:
		err = d.settle("ack", verbAck, "", Acknowledged, nil)
	case errors.As(err, &busy):
		err = p.gates.put(d, busy.lock)
	case errors.Is(err, errNoLock):
		p.queue.engine.Logger.Warn("relock: a task is not processed", d.about("reason", err)...)
		err = d.settle("release", verbRelease, milliseconds(noLockPause), Released, err)
	case errors.Is(err, errRuns) || errors.Is(err, errAway):
		err = d.settle("release", verbRelease, milliseconds(busyPause), Released, nil)
	case isPermanent(err):
		err = d.DeadLetter(p.life, err)
	case p.life.Err() != nil:
		err = d.settle("release", verbRelease, 0, Released, err)
	case d.Attempt >= cmp.Or(d.MaxAttempts, p.queue.set.attempts):
		err = d.DeadLetter(p.life, err)
	default:
		earlier := d.doing.Swap(doingBackoff)
		pause := backoff(d.Attempt, err)
		d.doing.Store(earlier)
		err = d.Nack(p.life, min(max(0, pause), lockspec.MaxLease), err)
	}
	d.logSettled(err)
}

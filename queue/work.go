package queue

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/errs"
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
	err = d.guarded(func() error {
		if !d.announce() {
			return nil // it is settled
		}
		return explained(ctx, r.exclusive(ctx, func() error { return p.attempt(ctx, r) }))
	})
}

// errEnded is the error of a function that has ended its goroutine, by
// [runtime.Goexit]: a test that fails does.
var errEnded = errors.New("the function has ended its goroutine")

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
	failed = d.guarded(func() error {
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
	default:
		err = d.fail(p.life, err, backoff)
	}
	d.logSettled(err)
}

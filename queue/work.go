package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
)

// handle runs the function for a delivery, and settles it.
func (p *process) handle(d *Delivery) {
	ctx, cancel := context.WithCancelCause(p.life)
	defer cancel(nil)
	d.hold.CancelWith(cancel)
	if p.set.timeout > 0 {
		defer p.limit(d, cancel).Stop()
	}
	err := errEnded
	defer func() { p.finish(d, err) }()
	err = p.guarded(d, func() error { return p.attempt(ctx, d) })
}

// errEnded is the error of a function that has ended its goroutine, by
// [runtime.Goexit]: a test that fails does.
var errEnded = errors.New("the function has ended its goroutine")

// limit cancels the function after its timeout, and ends the renewals.
func (p *process) limit(d *Delivery, cancel context.CancelCauseFunc) *time.Timer {
	return time.AfterFunc(p.set.timeout, func() {
		cancel(fmt.Errorf("WithTimeout of %v: %w", p.set.timeout, context.DeadlineExceeded))
		d.hold.StopRenewing()
	})
}

// guarded runs code of the user for a delivery. A panic is logged, and is an
// error.
func (p *process) guarded(d *Delivery, run func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			stack := debug.Stack()
			err = fmt.Errorf("panic: %v\n%s", value, stack)
			p.queue.engine.Logger.Error("relock: a function of a task panicked", "queue", p.queue.name, "task", d.ID, "panic", value, "stack", string(stack))
		}
	}()
	return run()
}

// finish settles a delivery whose function has returned. If its error or
// WithBackoff panics, that is the error, and the default back-off counts.
func (p *process) finish(d *Delivery, err error) {
	panicked := p.guarded(d, func() error {
		p.settle(d, err, p.queue.set.backoff)
		return nil
	})
	if panicked != nil {
		p.settle(d, panicked, Backoff)
	}
}

// settle settles a delivery, unless that was done. One that was lost sends
// nothing.
func (p *process) settle(d *Delivery, err error, backoff func(int, error) time.Duration) {
	if d.protocol.isSettled() {
		return
	}
	switch {
	case err == nil:
		err = d.settle("ack", verbAck, "", Acknowledged, nil)
	case errors.Is(err, errBusy):
		err = d.settle("release", verbRelease, milliseconds(busyPause), Released, nil)
	case isPermanent(err):
		err = d.DeadLetter(p.life, err)
	case p.life.Err() != nil:
		err = d.settle("release", verbRelease, 0, Released, err)
	case d.Attempt >= p.queue.set.attempts:
		err = d.DeadLetter(p.life, err)
	default:
		pause := backoff(d.Attempt, err)
		err = d.Nack(p.life, min(max(0, pause), lockspec.MaxLease), err)
	}
	p.settled(d, err)
}

// settled logs an error of a settle, which no caller learns of.
func (p *process) settled(d *Delivery, err error) {
	if err != nil && !errors.Is(err, relock.ErrClosed) && !errors.Is(err, relock.ErrNotHeld) {
		p.queue.engine.Logger.Warn("relock: a task was not settled", "queue", p.queue.name, "task", d.ID, "reason", err.Error())
	}
}

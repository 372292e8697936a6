package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/taskdouble"
)

// Delivery is one attempt at a task, and a lease of it. Only [Queue.Receive],
// [Queue.TryReceive] and [Queue.Process] make one. Its methods may be used by
// any goroutine. The first of Ack, Nack, DeadLetter and Release settles it,
// whatever it returns. They return nil if the server has confirmed it, and
// otherwise:
//
//   - [relock.ErrLockLost] and [relock.ErrNotHeld]: the lease was lost before.
//     The task is attempted again, by others or as a dead letter;
//   - [relock.ErrNotHeld]: it was settled before;
//   - [relock.ErrUnconfirmed]: no answer, or the server refused, or an answer
//     was lost and the lease has ended since. It was executed or is repeated in
//     the background until the lease has ended, or the task is attempted again;
//   - [relock.ErrClosed]: the client was closed; the lease ends by itself.
type Delivery struct {
	Task
	Attempt    int       // 1 for the first
	EnqueuedAt time.Time // by the server's clock; see Requeue

	// Interruptions is how often its process was gone before an attempt ended,
	// see [WithMaxInterruptions].
	Interruptions int

	queue    *base
	lease    taskdouble.Attempt // the protocol, unless it is of a double
	protocol *protocol
	start    time.Time
	values   context.Context // the receiving call's, for its values
	damage   error           // why its record cannot be read; nil if it can

	announced bool  // to the observer; used by the receiving goroutine or the worker
	doing     doing // what Process does for it

	mu       sync.Mutex
	ctx      context.Context // of Context; nil until it is requested
	reported bool            // to the observer
}

// announce notifies the observer of a delivery that begins, once. A damaged one
// becomes a dead letter. It reports whether the delivery can be used: a hook
// that hangs may have outlasted it.
func (d *Delivery) announce() bool {
	if hook := d.queue.set.observer.Received; hook != nil && !d.announced {
		d.doing.Store(doingReceived)
		hook(d.values, Received{d.queue.name, d.ID, d.Key, d.Attempt, max(0, d.start.Sub(d.EnqueuedAt.Add(d.Delay)))})
		d.doing.Store(doingFunction)
	}
	d.announced = true
	if d.damage != nil {
		_ = d.settle("dead-letter", verbDead, d.damage.Error(), Dead, d.damage) // else its lease ends
	}
	return !d.protocol.isSettled()
}

// Context returns a context that is cancelled when the delivery is settled or
// lost, before another attempt can begin. [context.Cause] then matches
// [relock.ErrNotHeld], [relock.ErrLockLost] or [relock.ErrClosed]. It has the
// values of the receiving call's context. It knows nothing of [WithTimeout],
// [WithGrace] and the lock of [WithLocker]: the context of Process's function
// does.
func (d *Delivery) Context() context.Context {
	if d.isNone() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(d.Err())
		return ctx
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(d.values))
		d.lease.CancelWith(cancel)
		d.ctx = ctx
	}
	return d.ctx
}

// Err returns nil while the delivery is valid by the clock. Otherwise it
// returns why it has ended. Check it right before a write. Under [WithLocker],
// check the hold of [relock.HoldFromContext] too.
func (d *Delivery) Err() error {
	if d.isNone() {
		return wrapped("delivery", "", errNone)
	}
	return d.queue.wrap("delivery", d.lease.Err())
}

// isNone reports whether d was made by hand.
func (d *Delivery) isNone() bool { return d == nil || d.protocol == nil }

var errNone = fmt.Errorf("%w: delivery: was not received", relock.ErrInvalid)

// Fence returns a number that rises with every attempt at any task of the
// queue. It names the delivery, and never changes. It is not the token of the
// lock of [WithLocker].
func (d *Delivery) Fence() int64 {
	if d.isNone() {
		return 0
	}
	return d.protocol.fence
}

// Ack reports the task as done. ctx has no effect: Ack works even if it is
// cancelled.
func (d *Delivery) Ack(context.Context) error {
	return d.settle("ack", verbAck, "", Acknowledged, nil)
}

// Nack reports that the attempt failed. The task is due again after the pause,
// or now if the pause is below 0. It is behind what is due by then, and blocks
// its key until it is done. A pause above 10 years is [relock.ErrInvalid], and
// settles nothing. Nack ignores [WithMaxAttempts]: call DeadLetter yourself.
// The text of why, up to 1,024 bytes, is kept until another attempt has failed
// or the task ends. It may be nil. ctx has no effect.
func (d *Delivery) Nack(_ context.Context, after time.Duration, why error) error {
	if d.isNone() {
		return d.Err()
	}
	if after > lockspec.MaxLease {
		return d.queue.wrap("nack", fmt.Errorf("%w: after: %v is above %v", relock.ErrInvalid, after, lockspec.MaxLease))
	}
	argument := any(milliseconds(max(0, after)))
	if reason := reasonOf(why); reason != "" {
		argument = fmt.Sprintf("%d %s", argument, reason)
	}
	return d.settle("nack", verbNack, argument, Failed, why)
}

// DeadLetter ends all attempts. The task is kept as a dead letter, with the
// text of why, up to 1,024 bytes. ctx has no effect.
func (d *Delivery) DeadLetter(_ context.Context, why error) error {
	return d.settle("dead-letter", verbDead, reasonOf(why), Dead, why)
}

// Release returns the task. It is due now, behind what is due, and the attempt
// does not count. A task with a key keeps its place in the order of its key.
// ctx has no effect.
func (d *Delivery) Release(context.Context) error {
	return d.settle("release", verbRelease, 0, Released, nil)
}

// isHarmless reports whether a task that was interrupted may be followed by
// another one: it has ended, or has lived for a lease.
func (d *Delivery) isHarmless() bool {
	return d.protocol.isSettled() || time.Since(d.start) >= d.queue.set.lease || d.lease.Err() != nil
}

// settle ends the delivery here, and then at the server.
func (d *Delivery) settle(op, verb string, argument any, outcome Outcome, why error) error {
	if d.isNone() {
		return d.Err()
	}
	reason := reasonOf(why) // before the settle, as it may panic
	if !d.protocol.choose(verb, argument) {
		return d.queue.wrap(op, errs.ErrNotHeld)
	}
	earlier := d.doing.Swap(doingSettle)
	err := d.lease.Settle()
	d.doing.Store(earlier)
	if d.Interruptions > 0 {
		d.queue.due.notify() // it may take another one that was interrupted
	}
	switch {
	case errors.Is(err, relock.ErrUnconfirmed):
		outcome, why = Unconfirmed, err
	case errs.IsLoss(err):
		outcome, why = Lost, err
	}
	d.logEnd(outcome, reason)
	d.report(outcome, why)
	return d.queue.wrap(op, err)
}

// report notifies the observer of the end, once.
func (d *Delivery) report(outcome Outcome, why error) {
	hook := d.queue.set.observer.Finished
	if hook == nil {
		return
	}
	d.mu.Lock()
	reported := d.reported
	d.reported = true
	d.mu.Unlock()
	if !reported {
		earlier := d.doing.Swap(doingFinished)
		hook(d.values, Finished{d.queue.name, d.ID, d.Key, d.Attempt, d.start, outcome, why})
		d.doing.Store(earlier)
	}
}

// String returns "task", the quoted id and the attempt.
func (d *Delivery) String() string {
	if d == nil {
		return "no task"
	}
	return "task " + strconv.Quote(d.ID) + ", attempt " + strconv.Itoa(d.Attempt)
}

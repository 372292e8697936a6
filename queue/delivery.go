package queue

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
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
//   - [relock.ErrUnconfirmed]: no answer, or the server refused. It is repeated
//     in the background until the lease has ended;
//   - [relock.ErrClosed]: the client was closed; the lease ends by itself.
type Delivery struct {
	Task
	Attempt    int       // 1 for the first
	EnqueuedAt time.Time // by the server's clock; see Requeue

	queue    *Queue
	hold     *lease.Hold
	protocol *protocol
	start    time.Time
	values   context.Context // the receiving call's, for its values

	mu       sync.Mutex
	ctx      context.Context // of Context; nil until it is requested
	reported bool            // to the observer
}

// deliver returns the delivery of what a receive took that was sent at sent. It
// returns nil if that is over already.
func (q *Queue) deliver(ctx context.Context, sent time.Time, t *taken) *Delivery {
	p := &protocol{queue: q, id: t.id, fence: t.fence}
	h, err := q.engine.Grant(context.Background(), &lease.Grant{
		Key: q.name + "/" + t.id, Protocol: p, Sent: sent, Settings: &q.spec, Tokens: script.Tokens{Fence: t.fence},
	})
	if err != nil {
		return nil // the lease ends by itself
	}
	d := &Delivery{Attempt: int(t.attempt), queue: q, hold: h, protocol: p, start: time.Now(), values: ctx}
	d.Task, d.EnqueuedAt, err = readRecord(t.id, t.record)
	if err != nil {
		d.ID, d.EnqueuedAt = t.id, d.start
	}
	if hook := q.set.observer.Received; hook != nil {
		hook(ctx, Received{q.name, d.ID, d.Key, d.Attempt, max(0, d.start.Sub(d.EnqueuedAt.Add(d.Delay)))})
	}
	if err != nil {
		_ = d.settle("dead-letter", verbDead, err.Error(), Dead, err) // else its lease ends
		return nil
	}
	return d
}

// Context returns a context that is cancelled when the delivery is settled or
// lost, before another attempt can begin. [context.Cause] then matches
// [relock.ErrNotHeld], [relock.ErrLockLost] or [relock.ErrClosed]. It has the
// values of the receiving call's context.
func (d *Delivery) Context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(d.values))
		d.hold.CancelWith(cancel)
		d.ctx = ctx
	}
	return d.ctx
}

// Err returns nil while the delivery is valid by the clock. Otherwise it
// returns why it has ended. Check it right before a write.
func (d *Delivery) Err() error { return d.queue.wrap("delivery", d.hold.Err()) }

// Fence returns a number that rises with every attempt at any task of the
// queue. It names the delivery, and never changes.
func (d *Delivery) Fence() int64 { return d.protocol.fence }

// Ack reports the task as done. ctx has no effect, here and below: they work
// even if it is cancelled.
func (d *Delivery) Ack(context.Context) error {
	return d.settle("ack", verbAck, "", Acknowledged, nil)
}

// Nack says that the attempt failed. The task is due again after the pause, and
// blocks its key until then. It does not count attempts: see DeadLetter. why is
// for the observer, and may be nil.
func (d *Delivery) Nack(_ context.Context, after time.Duration, why error) error {
	if after < 0 || after > lockspec.MaxLease {
		return d.queue.wrap("nack", fmt.Errorf("%w: after: %v is not 0 to %v", relock.ErrInvalid, after, lockspec.MaxLease))
	}
	return d.settle("nack", verbNack, milliseconds(after), Failed, why)
}

// DeadLetter ends all attempts. The task is kept as a dead letter, with the
// text of why, up to 1,024 bytes.
func (d *Delivery) DeadLetter(_ context.Context, why error) error {
	text := ""
	if why != nil {
		text = why.Error()
	}
	return d.settle("dead-letter", verbDead, text[:min(len(text), maxReason)], Dead, why)
}

// Release returns the task, as if it was never received: it is at its old
// place, and the attempt does not count.
func (d *Delivery) Release(context.Context) error {
	return d.settle("release", verbRelease, 0, Released, nil)
}

// maxReason limits the reason that is kept of a dead letter.
const maxReason = 1024

// settle ends the delivery here, and then at the server.
func (d *Delivery) settle(op, verb string, argument any, outcome Outcome, why error) error {
	if !d.protocol.choose(verb, argument) {
		return d.queue.wrap(op, errs.ErrNotHeld)
	}
	err := d.hold.Unlock()
	if errs.IsLoss(err) {
		outcome, why = Lost, err
	}
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
		hook(d.values, Finished{d.queue.name, d.ID, d.Key, d.Attempt, d.start, outcome, why})
	}
}

// String returns "task", the quoted id and the attempt.
func (d *Delivery) String() string {
	return "task " + strconv.Quote(d.ID) + ", attempt " + strconv.Itoa(d.Attempt)
}

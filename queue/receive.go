package queue

import (
	"context"
	"fmt"
	"slices"

	"github.com/relock-go/relock"
)

// maxReceive is how many tasks one receive takes at most.
const maxReceive = 64

// Receive waits until a task is due, and returns up to n, at most 64. Settle
// each of them: by Ack, Nack, DeadLetter or Release. Until then its lease is
// renewed, so a delivery that is forgotten blocks its task until the client is
// closed.
//
// It returns an error if ctx is cancelled or the client is closed, and any
// error of the network or the server. What the server has given it is returned
// to the queue before, which takes no longer than one command may.
// [Queue.Process] rides such errors out.
func (q *Queue) Receive(ctx context.Context, n int) ([]*Delivery, error) {
	if err := q.readyFor(ctx, n); err != nil {
		return nil, q.wrap("receive", err)
	}
	q.receiver.enter(true)
	for {
		got, err := q.receiver.receive(ctx, ask{want: min(n, maxReceive), then: waits})
		got.announce()
		if len(got.deliveries) > 0 {
			q.receiver.leave(false)
			return got.deliveries, nil
		}
		if err == nil && !got.again {
			err = q.receiver.clock.sleep(ctx, got.next)
		}
		if err != nil {
			q.receiver.leave(true)
			return nil, q.wrap("receive", err)
		}
	}
}

// TryReceive is [Queue.Receive] without the wait. It returns no deliveries and
// no error if no task is due, or [WithMaxInFlight] is reached.
func (q *Queue) TryReceive(ctx context.Context, n int) ([]*Delivery, error) {
	if err := q.readyFor(ctx, n); err != nil {
		return nil, q.wrap("receive", err)
	}
	q.receiver.enter(false)
	for {
		got, err := q.receiver.receive(ctx, ask{want: min(n, maxReceive), then: leaves})
		got.announce()
		if err == nil && got.again && len(got.deliveries) == 0 {
			continue // what was due went behind its key
		}
		q.receiver.leave(err != nil)
		return got.deliveries, q.wrap("receive", err)
	}
}

// announce notifies the observer of the deliveries, and leaves out those that
// cannot be used.
func (r *received) announce() {
	n := len(r.deliveries)
	r.deliveries = slices.DeleteFunc(r.deliveries, func(d *Delivery) bool { return !d.announce() })
	r.again = r.again || len(r.deliveries) < n // in their place
}

func (q *Queue) readyFor(ctx context.Context, n int) error {
	if err := q.ready(ctx); err != nil {
		return err
	}
	if n < 1 {
		return fmt.Errorf("%w: n: %d is below 1", relock.ErrInvalid, n)
	}
	return nil
}

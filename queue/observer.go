package queue

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/holds"
)

// Observer is a set of hooks that are called as a queue is used. Any hook may
// be nil. A hook runs on the goroutine of a caller or of Process. Several may
// run concurrently. A hook must return quickly, and must not panic.
type Observer struct {
	// Enqueued is called for each task that an Enqueue has queued.
	Enqueued func(ctx context.Context, e Enqueued)

	// Received is called for each delivery, before it is returned.
	Received func(ctx context.Context, e Received)

	// Finished is called once for each Received: when the delivery was settled,
	// or when its end was found by Process or by a settle.
	Finished func(ctx context.Context, e Finished)

	// Overdue is called once for a delivery of Process whose function, back-off
	// or hook does not return: a second after [WithTimeout], or after 100
	// leases without it. It runs on a separate goroutine.
	Overdue func(ctx context.Context, e Overdue)
}

// And returns an observer that calls the hooks of o and then those of other.
func (o Observer) And(other Observer) Observer {
	return Observer{
		Enqueued: holds.InTurn(o.Enqueued, other.Enqueued),
		Received: holds.InTurn(o.Received, other.Received),
		Finished: holds.InTurn(o.Finished, other.Finished),
		Overdue:  holds.InTurn(o.Overdue, other.Overdue),
	}
}

// Enqueued describes a task that was queued.
type Enqueued struct {
	Queue, ID, Key string
	Delay          time.Duration
}

// Received describes a delivery that begins.
type Received struct {
	Queue, ID, Key string
	Attempt        int
	// Waited is the time since the task was due for the first time, by the
	// clocks of the server and of this machine.
	Waited time.Duration
}

// Outcome is what became of a delivery.
type Outcome string

// The outcomes.
const (
	Acknowledged Outcome = "acknowledged"
	Failed       Outcome = "failed" // and is due again later
	Dead         Outcome = "dead"
	Released     Outcome = "released"
	Lost         Outcome = "lost"        // the lease, before it was settled
	Unconfirmed  Outcome = "unconfirmed" // the settle, see [relock.ErrUnconfirmed]
)

// Finished describes the end of a delivery.
type Finished struct {
	Queue, ID, Key string
	Attempt        int
	Start          time.Time // when it was received
	Outcome        Outcome
	Err            error // of the function, or why it was lost or is not confirmed; nil if it was acknowledged
}

// Overdue describes a delivery of Process that does not end.
type Overdue struct {
	Queue, ID, Key string
	Attempt        int
	Start          time.Time     // when its worker began
	Limit          time.Duration // of [WithTimeout], or 100 leases
}

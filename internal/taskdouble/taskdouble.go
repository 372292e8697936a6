// Package taskdouble gives the double of a task queue, in package relocktest,
// access to the inside of package queue: its settings, its deliveries, and the
// rules by which Process settles them.
//
// Its variable is set while the packages of a program are initialised, and
// never changes after that.
package taskdouble

import (
	"context"
	"time"
)

// Attempt is the lease of a delivery.
type Attempt interface {
	CancelWith(cancel context.CancelCauseFunc)
	StopRenewing()
	Err() error
	Settle() error // ends it, after the delivery has chosen what becomes of the task
}

// Settings are the options of a queue that a double follows.
type Settings struct {
	Lease   time.Duration
	Fatal   int // interruptions of a dead letter
	Unique  time.Duration
	Letters int
	Age     time.Duration
	Limit   int // of tasks in flight; 0 for none
}

// Delivery is what a delivery has beside its task.
type Delivery struct {
	Attempt, Interruptions int

	Fence      int64
	EnqueuedAt time.Time
	Lease      Attempt
}

var of func(name string, options any) (queue any, err error)

// Provide sets the function that makes the inside of a queue without a client.
// Only package queue calls it, in a package-level initialiser.
func Provide(f func(name string, options any) (any, error)) struct{} {
	of = f
	return struct{}{}
}

// New returns the inside of a queue with these options, a []queue.Option.
func New(name string, options any) (any, error) { return of(name, options) }

package queue

import (
	"errors"
	"fmt"

	"github.com/relock-go/relock"
)

// The reasons for which an operation fails, besides those of package relock.
// Test for them with [errors.Is].
var (
	// ErrDuplicate reports that the ID of a task is in use. It is queued, in
	// flight, a dead letter, or was done within [WithUnique]. Of several tasks,
	// others may have failed for other reasons: see [EnqueueError].
	ErrDuplicate = errors.New("id is in use")

	// ErrNotFound reports that there is no task with this ID.
	ErrNotFound = errors.New("no such task")

	// ErrInFlight reports that a task is being processed.
	ErrInFlight = errors.New("task is in flight")
)

// EnqueueError says what became of the tasks of a [Queue.Enqueue] that has not
// queued all of them. A task whose ID is in none of the lists is not queued.
type EnqueueError struct {
	Queued     []string // these are queued
	Duplicates []string // left out, because their IDs are in use
	Unknown    []string // may be queued, see [relock.ErrUnconfirmed]
	Err        error    // all reasons
}

// Error returns the reasons, with up to ten IDs each.
func (e *EnqueueError) Error() string {
	if e.Err == nil { // made by hand
		return "queue: not all tasks are queued"
	}
	return e.Err.Error()
}

// Unwrap returns the reasons.
func (e *EnqueueError) Unwrap() error { return e.Err }

// named quotes up to ten IDs.
func named(ids []string) string {
	const most = 10
	if len(ids) <= most {
		return fmt.Sprintf("%q", ids)
	}
	return fmt.Sprintf("%q and %d more", ids[:most], len(ids)-most)
}

// Permanent returns an error that a function given to [Queue.Process] returns
// if another attempt is useless. The task becomes a dead letter. It wraps err,
// and is nil if err is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// isPermanent reports whether another attempt is useless.
func isPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// wrapped adds the operation and the name of the queue to err.
func wrapped(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &relock.Error{Op: op, Key: name, Err: err}
}

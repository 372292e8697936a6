package waitqueue

import (
	"errors"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Answer is what a line knows about its lock, as Redis has answered.
type Answer struct {
	Held   bool      // others have held the lock since the line began
	Others bool      // other clients are in the queue too
	Kept   time.Time // until when a minimum hold keeps the lock; the zero time if none does
	Err    error     // of the last poll or request
}

// Reason returns why no call of the line gets the lock, as far as it is known:
// the last error, ErrLockAcquiredByOthers, or nil.
func (a Answer) Reason() error {
	if a.Err == nil && a.Held {
		return errs.ErrLockAcquiredByOthers
	}
	return a.Err
}

// answers has the last answer. Its mutex may be taken under any other of this
// package, of the local waiters and of a lease.
type answers struct {
	mu   sync.Mutex
	last Answer
}

// Answer returns what is known now.
func (a *answers) Answer() Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// note changes what is known.
func (a *answers) note(change func(*Answer)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.last)
}

// Note records the error of a request of the first waiter, or nil, for the
// waiters behind it.
func (a *answers) Note(err error) {
	switch {
	// These two concern only the owner that made the request.
	case errors.Is(err, driver.ErrAbandoned), errors.Is(err, errs.ErrLockLost):
	case err == nil, errors.Is(err, errs.ErrLockAcquiredByOthers):
		a.note(func(now *Answer) { now.Err, now.Held = nil, true })
	default:
		a.note(func(now *Answer) { now.Err = err })
	}
}

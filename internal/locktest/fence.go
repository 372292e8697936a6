package locktest

import (
	"context"

	"github.com/relock-go/relock"
)

// Reader acquires a lock to read.
type Reader struct{ *relock.RWLock }

// Acquire acquires the lock to read.
func (r Reader) Acquire(ctx context.Context) (relock.Hold, error) { return r.RAcquire(ctx) }

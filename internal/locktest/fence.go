package locktest

import (
	"context"

	"github.com/relock-go/relock"
)

// Reader acquires a lock to read.
type Reader struct{ *relock.RWLock }

func (r Reader) Acquire(ctx context.Context) (relock.Hold, error) { return r.RAcquire(ctx) }

type Acquirer interface {
	Acquire(ctx context.Context) (relock.Hold, error)
}

package relock

import (
	"context"

	"github.com/relock-go/relock/internal/lease"
)

// owned makes all calls of a lock those of the owner id, whatever goroutine
// makes them. A lock without owners stays as it is.
func owned[L anyLock](id string, l L) L {
	switch l := any(l).(type) {
	case *ReentrantLock:
		l.how = asOwner{l.how, id}
	case *RWLock:
		l.how, l.reading.how = asOwner{l.how, id}, asOwner{l.reading.how, id}
	}
	return l
}

type asOwner struct {
	locking
	id string
}

func (o asOwner) Take(ctx context.Context, block, lasting bool) (*lease.Hold, error) {
	return o.locking.Take(ContextWithOwner(ctx, o.id), block, lasting)
}

func (o asOwner) Release(ctx context.Context) error {
	return o.locking.Release(ContextWithOwner(ctx, o.id))
}

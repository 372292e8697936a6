package lease

import (
	"context"
)

// take locks the mutex of the owner, which serialises the changes of its
// levels. It is held while a request is under way, but never while a waiter
// sleeps. Its holder unlocks it when the server has answered, or after the
// command timeout. A lock without an owner, nil, needs none.
func (o *Owner) take() {
	if o != nil {
		o.turn <- struct{}{}
	}
}

// takeUntil locks the mutex unless ctx is cancelled first. It reports whether
// it did.
func (o *Owner) takeUntil(ctx context.Context) bool {
	select {
	case o.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (o *Owner) give() {
	if o != nil {
		<-o.turn
	}
}

package lease

import (
	"context"
)

// turn is the owner mutex: it serialises the changes of one owner's levels. It
// is held while a request is under way, but never while a waiter sleeps.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take locks the mutex. Its holder unlocks it when the server has answered, or
// after the command timeout.
func (t turn) take() {
	if t != nil {
		t <- struct{}{}
	}
}

// takeUntil locks the mutex unless ctx is cancelled first. It reports whether
// it did.
func (t turn) takeUntil(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t turn) give() {
	if t != nil {
		<-t
	}
}

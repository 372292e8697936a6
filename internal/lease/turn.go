package lease

import (
	"context"
)

// turn serialises the changes of one owner's levels. It is held while a request is under way, never while a
// waiter sleeps.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, which its holder gives back when the server has answered or the command timeout is
// over.
func (t turn) take() {
	if t != nil {
		t <- struct{}{}
	}
}

// takeUntil waits for the turn as long as ctx allows.
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

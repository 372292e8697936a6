package etcdlock

import (
	"context"
	"math/rand/v2"
	"time"
)

// sleep pauses for d, unless ctx is cancelled first. It reports whether d has
// passed.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pauses are the pauses between attempts. They grow while a server answers with
// errors or not at all.
type pauses struct{ last time.Duration }

const (
	firstPause = 10 * time.Millisecond
	maxPause   = 800 * time.Millisecond
)

func (p *pauses) next() time.Duration {
	p.last = max(firstPause, min(2*p.last, maxPause))
	return p.last + rand.N(p.last/5)
}

// turn belongs to one call at a time. Waiting calls get it in their order.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn until one of the contexts is cancelled. It reports
// whether it got the turn.
func (t turn) take(ctx, life context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-life.Done():
	}
	return false
}

// try takes the turn if it is free. It reports whether it did.
func (t turn) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turn) give() { <-t }

// detached is cancelled as its Context is, and has the values of another one.
type detached struct {
	context.Context
	values context.Context
}

// Deadline reports that there is none. gRPC would send a deadline to the
// server, in a header that differs each time, and the server would set a timer.
// The request ends in time on this side, and on the server with it.
func (detached) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Value asks the Context first. So contexts that are derived from this one find
// what cancels them.
func (d detached) Value(key any) any {
	if value := d.Context.Value(key); value != nil {
		return value
	}
	return d.values.Value(key)
}

// both returns a context that is cancelled with ctx, and also with other.
func both(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() { stop(); cancel(nil) }
}

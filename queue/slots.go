package queue

import (
	"context"
	"runtime"
	"time"

	"github.com/relock-go/relock"
)

// maxAhead is beside how many settles a worker may be free already. With more,
// many workers would share fewer receives.
const maxAhead = 10

// aheadOf returns that for so many workers. Under WithMaxInFlight it is none: a
// receive beside a settle would find no room.
func (q *Queue) aheadOf(workers int) int {
	if q.set.inFlight > 0 {
		return 0
	}
	return min(workers, maxAhead)
}

// filled returns a channel with n values.
func filled(n int) chan struct{} {
	c := make(chan struct{}, n)
	for range n {
		c <- struct{}{}
	}
	return c
}

// free waits for a free worker. It takes all that are free by then, and returns
// how many.
func (p *process) free(ctx context.Context) (want int, err error) {
	select {
	case <-p.slots:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-p.queue.engine.Life.Done():
		return 0, relock.ErrClosed
	}
	runtime.Gosched() // others of the same batch are about to be free
	for want = 1; want < maxReceive; want++ {
		select {
		case <-p.slots:
		default:
			return want, nil
		}
	}
	return want, nil
}

// slotWithin waits for a free worker, and reports whether there is one.
func (p *process) slotWithin(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.slots:
		return true
	case <-timer.C:
	case <-ctx.Done():
	case <-p.queue.engine.Life.Done():
	}
	return false
}

// freeAhead frees the worker of a run whose function has returned nil, before
// its task is acknowledged: the next receive need not wait for that. Not so if
// the task has a key, as the settle makes the next one of that due, nor for a
// task of a gate, which has the lock. What hangs after the function costs one
// of these values instead of a worker.
func (r *run) freeAhead() {
	p, d := r.process, r.delivery
	if r.slot != p.slots || r.held != nil || d.Key != "" || d.Interruptions > 0 {
		return
	}
	select {
	case <-p.ahead:
		p.slots <- struct{}{}
		r.slot = p.ahead
	default: // enough settles are under way
	}
}

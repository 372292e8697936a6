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

// aheadOf returns that for so many workers. It is none if they can reach the
// limit of WithMaxInFlight: a receive beside a settle would find no room.
func (q *Queue) aheadOf(workers int) int {
	if limit := q.set.inFlight; limit > 0 && limit <= workers {
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

// plenty is how many receives in a row have found all that was wanted, before
// one is sent beside a settle that it may need.
const plenty = 32

// noteFound notes whether a receive has found all that it wanted.
func (p *process) noteFound(all bool) {
	if !all {
		p.scarce.Store(plenty)
	} else if n := p.scarce.Load(); n > 0 {
		p.scarce.Store(n - 1) // only the goroutine that fetches writes it
	}
}

// makesDue reports whether the settle of a run may be what the next receive
// needs: it makes the next task of its key due, or room for one.
func (r *run) makesDue() bool {
	return r.delivery.Key != "" || r.process.queue.set.inFlight > 0
}

// freeAhead frees the worker of a run whose function has returned nil, before
// its task is acknowledged: the next receive need not wait for that. Where it
// may find nothing without the settle, it waits unless there is plenty. The
// task of a gate has the lock until its end. What hangs after the function
// costs one of these values instead of a worker.
func (r *run) freeAhead() {
	p := r.process
	if r.slot != p.slots || r.held != nil || r.delivery.Interruptions > 0 {
		return
	}
	if r.makesDue() && p.scarce.Load() > 0 {
		return
	}
	select {
	case <-p.ahead:
		p.slots <- struct{}{}
		r.slot = p.ahead
	default: // enough settles are under way
	}
}

// settledAhead has a receive look again that came before the settle, and may
// have found nothing.
func (r *run) settledAhead() {
	if r.slot == r.process.ahead && r.makesDue() {
		r.process.queue.due.notify()
	}
}

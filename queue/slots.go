package queue

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
)

// maxAhead is beside how many settles a worker may be free already. With more,
// many workers would share fewer receives.
const maxAhead = 10

// slots are the free workers of one call of Process, as values of channels.
type slots struct {
	life   context.Context // of the client
	free   chan struct{}   // has a value for each free worker
	ahead  chan struct{}   // has one for each settle beside which a worker may be free already
	scarce atomic.Int32    // how many receives must find all that they want first, see freeAhead
}

func newSlots(life context.Context, workers, ahead int) *slots {
	s := &slots{life: life, free: filled(workers), ahead: filled(ahead)}
	s.scarce.Store(plenty)
	return s
}

// aheadOf returns beside how many settles so many workers may be free. It is
// none if they can reach the limit of WithMaxInFlight: a receive beside a
// settle would find no room.
func aheadOf(workers, limit int) int {
	if limit > 0 && limit <= workers {
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

// take waits for a free worker. It takes all that are free by then, and returns
// how many.
func (s *slots) take(ctx context.Context) (want int, err error) {
	select {
	case <-s.free:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-s.life.Done():
		return 0, relock.ErrClosed
	}
	runtime.Gosched() // others of the same batch are about to be free
	for want = 1; want < maxReceive; want++ {
		select {
		case <-s.free:
		default:
			return want, nil
		}
	}
	return want, nil
}

// takeWithin waits for a free worker, and reports whether there is one.
func (s *slots) takeWithin(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.free:
		return true
	case <-timer.C:
	case <-ctx.Done():
	case <-s.life.Done():
	}
	return false
}

// put frees so many workers.
func (s *slots) put(n int) {
	for range n {
		s.free <- struct{}{}
	}
}

// plenty is how many receives in a row have found all that was wanted, before
// one is sent beside a settle that it may need.
const plenty = 32

// noteFound notes whether a receive has found all that it wanted.
func (s *slots) noteFound(all bool) {
	if !all {
		s.scarce.Store(plenty)
	} else if n := s.scarce.Load(); n > 0 {
		s.scarce.Store(n - 1) // only the goroutine that fetches writes it
	}
}

// freeAhead frees the worker of a slot before the settle of its task, and
// returns the slot that the task has from then on. If the next receive may find
// nothing without the settle, it does so only while there is plenty. What hangs
// after the function costs one of ahead instead of a worker.
func (s *slots) freeAhead(slot chan struct{}, makesDue bool) chan struct{} {
	if slot != s.free || makesDue && s.scarce.Load() > 0 {
		return slot
	}
	select {
	case <-s.ahead:
		s.free <- struct{}{}
		return s.ahead
	default: // enough settles are under way
		return slot
	}
}

package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errStopped is the cause of the end of functions that the grace was too short
// for.
var errStopped = errors.New("the grace period of Process is over")

// drain waits for the functions: for the grace, and for a second more after
// their contexts were cancelled by stop.
func (p *pool) drain(grace time.Duration, stop context.CancelCauseFunc) error {
	done := make(chan struct{})
	go func() { // ends with the last function, however late that returns
		defer close(done)
		p.group.Wait()
	}()
	if endedWithin(done, grace) {
		return nil
	}
	stop(errStopped)
	if endedWithin(done, lastMoment) {
		return nil
	}
	return p.leaveBehind()
}

// leaveBehind leaves the functions that have not returned. It returns an error
// that names their tasks, or nil if there are none.
func (p *pool) leaveBehind() error {
	var due, settled []string
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.running {
		r.stop()
		if r.delivery.protocol.isSettled() {
			settled = append(settled, r.delivery.ID)
			continue
		}
		r.delivery.lease.StopRenewing()
		due = append(due, r.delivery.ID)
	}
	var all []error
	if len(due) > 0 {
		all = append(all,
			fmt.Errorf("functions have not returned, their tasks are due again when their leases end: %s", named(due)))
	}
	if len(settled) > 0 {
		all = append(all, fmt.Errorf("functions have not returned, their tasks were settled: %s", named(settled)))
	}
	return errors.Join(all...)
}

func endedWithin(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

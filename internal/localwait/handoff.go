package localwait

import (
	"maps"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Budget limits the hand-offs within this process, counted from the grant by
// Redis. Without a budget, a process with many goroutines would leave almost
// nothing to the others.
type Budget struct {
	Times  int16
	Alone  time.Duration // while no other process is known to wait
	Beside time.Duration // while one is
}

// DefaultBudget returns the budget of a client.
func DefaultBudget() Budget {
	return Budget{Times: 1000, Alone: 10 * time.Millisecond, Beside: time.Millisecond}
}

// Next removes and returns the waiter that gets the lock next in this process.
// Redis granted the lock a time of held ago. It was handed off passes times
// since then. Next returns nil if there is no suitable waiter, or if the budget
// is spent: it is the turn of other processes.
func (a *Waiters[G]) Next(
	redisKey string, held time.Duration, passes int16, b Budget, s *lockspec.Spec,
) (next *Waiter[G], left *waitqueue.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.byKey[redisKey]
	if len(all) == 0 {
		return nil, nil
	}
	if held > b.Alone || passes >= b.Times || held > b.Beside && all[0].Line.Answer().Others {
		return nil, nil
	}
	switch first := all[0]; {
	case s.SameHold(first.Call.Settings) && first.parked.Yield(len(all) == 1):
		return a.removeGranted(first, 0)
	case len(all) == 1 || first.parked.IsParked() || !s.SameHold(all[1].Call.Settings):
		return nil, nil
	}
	return a.removeGranted(all[1], 1) // a request of the first one is under way
}

// removeGranted removes a waiter that is granted the lock, and returns it. The
// entry of the first waiter goes to the next one. If no other is waiting, the
// entry was retained, because the caller usually returns soon. An entry that no
// call can use is returned as left. mu is held.
func (a *Waiters[G]) removeGranted(s *Waiter[G], i int) (next *Waiter[G], left *waitqueue.Entry) {
	s.out, s.taken = true, true
	if rest := a.remove(s, i); i == 0 && len(rest) > 0 {
		left = promote(rest, s.parked)
	}
	return s, left
}

// Return puts back a removed waiter that did not get the lock, unless its call
// has left. It goes ahead of the waiters that came later.
func (s *Waiter[G]) Return() {
	a := s.of
	a.mu.Lock()
	if s.left {
		a.mu.Unlock()
		return
	}
	s.out, s.parked = false, nil
	left := a.put(s, min(1, len(a.byKey[s.Line.RedisKey])))
	a.mu.Unlock()
	left.Leave()
}

// Pass hands the waiter a hold that continues in this process.
func (s *Waiter[G]) Pass(hold G) { s.HandOff <- Offer[G]{Grant: hold} }

// Deliver hands the waiter a grant, and reports whether it did so. It does not
// if the call has left, or the client is closing. Until [Waiters.Arrived] the
// grant is in transit, and Close releases it.
func (s *Waiter[G]) Deliver(grant G) bool {
	a := s.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.left || a.life.Err() != nil {
		return false
	}
	a.transit[grant] = struct{}{}
	s.HandOff <- Offer[G]{Grant: grant}
	return true
}

// Arrived notes that a lease was made from the grant, or that the grant was
// released.
func (a *Waiters[G]) Arrived(grant G) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.transit, grant)
}

// InTransit returns the grants that were delivered and have not arrived.
func (a *Waiters[G]) InTransit() []G {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.transit))
}

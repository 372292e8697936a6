package waitqueue

import (
	"maps"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// removeGranted removes and returns a waiter that is granted the lock. The
// entry of the first waiter goes to the next one. If no other is waiting, the
// entry is retained, because the caller usually returns soon. A retained entry
// belongs to no call, so a hand-off to it is passed on immediately. An entry
// that no call can use is returned as left. queue.mu is held.
func (l *Line) removeGranted(i int) (s *Waiter, left *Entry) {
	s = l.waiters[i]
	l.waiters = slices.Delete(l.waiters, i, i+1)
	s.out, s.taken = true, true
	switch {
	case i > 0:
	case len(l.waiters) > 0:
		left = l.promote(s.Entry)
	default:
		l.Queue.forget(s.Entry)
		l.retained, l.retainedAt = s.Entry, time.Now()
		l.calls++ // keeps the line while the entry is retained
	}
	return s, left
}

// restore returns the retained entry: as place if a call with settings s can
// use it, otherwise as left, to be cancelled. queue.mu is held. No poll was
// sent for a retained entry, so after a while its client may look crashed. Then
// the next poll is due immediately.
func (l *Line) restore(s *lockspec.Spec) (place, left *Entry) {
	place = l.retained
	if place == nil {
		return nil, nil
	}
	l.retained = nil
	l.calls--
	if !place.suits(s) {
		return nil, place
	}
	l.Queue.waits[place.hold] = place
	l.waits = slices.Insert(l.waits, 0, place)
	at := time.Now()
	if at.Sub(l.retainedAt) < l.interval {
		at = at.Add(l.nextPoll(-1))
	}
	l.Queue.poller.AddEarlier(l.poll, at)
	return place, nil
}

// TakeRetained takes the retained entry out of the line, so that a release can
// remove it from the queue. It returns nil if there is none.
func (q *Queue) TakeRetained(redisKey string) *Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.lines[redisKey]
	if line == nil || line.retained == nil {
		return nil
	}
	place := line.retained
	line.retained = nil
	return place
}

// LeaveWith ends a retained entry after the release that was to remove it. The
// argument is the error of that release. If the release failed, or a request or
// a poll of the entry is indeterminate, the entry is cancelled. The entry may
// be nil.
func (w *Entry) LeaveWith(released error) {
	if w == nil {
		return
	}
	if released != nil || w.indeterminate.Exists() || w.polled.Exists() {
		w.Leave()
	}
	w.Line.Exit()
}

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
func (q *Queue) Next(
	redisKey string, held time.Duration, passes int16, b Budget, s *lockspec.Spec,
) (next *Waiter, left *Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[redisKey]
	if l == nil || len(l.waiters) == 0 {
		return nil, nil
	}
	if held > b.Alone || passes >= b.Times || l.remote && held > b.Beside {
		return nil, nil
	}
	i := 0
	if l.waiters[0].Entry == nil { // a request of its entry is under way
		i = 1
	}
	if i == len(l.waiters) || !s.SameHold(l.waiters[i].Call.Settings) {
		return nil, nil
	}
	return l.removeGranted(i)
}

// Return puts back a removed waiter that did not get the lock, unless its call
// has left. It goes ahead of the waiters that came later.
func (s *Waiter) Return() {
	l, q := s.Line, s.Line.Queue
	q.mu.Lock()
	if s.left {
		q.mu.Unlock()
		return
	}
	s.out, s.Entry = false, nil
	left := l.put(s, min(1, len(l.waiters)))
	q.mu.Unlock()
	left.Leave()
}

// Pass hands the waiter a hold that continues in this process.
func (s *Waiter) Pass(hold any) { s.HandOff <- Offer{Grant: hold} }

// Deliver hands the waiter a grant, and reports whether it did so. It does not
// if the call has left, or the client is closing. Until [Queue.Arrived] the
// grant is in transit, and Close releases it.
func (s *Waiter) Deliver(grant any) bool {
	q := s.Line.Queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.left || q.host.Life.Err() != nil {
		return false
	}
	q.transit[grant] = struct{}{}
	s.HandOff <- Offer{Grant: grant}
	return true
}

// Arrived notes that a lease was made from the grant, or that the grant was
// released.
func (q *Queue) Arrived(grant any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.transit, grant)
}

// InTransit returns the grants that were delivered and have not arrived.
func (q *Queue) InTransit() []any {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.transit))
}

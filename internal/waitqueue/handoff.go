package waitqueue

import (
	"maps"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// removeGranted removes a waiter that is given the lock. The entry of the first
// goes to the next. If no other waits, it is retained, because the caller
// usually returns soon. It is nobody's then, so a hand-off to it is passed on
// immediately. It returns an entry that is of no use any more; queue.mu is
// held.
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
		l.calls++ // keeps the line
	}
	return s, left
}

// restore returns the retained entry, to be used or to be cancelled; queue.mu
// is held. Nobody has polled for it: after a while its client may look crashed.
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

// TakeRetained returns the retained entry, for a release to remove.
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

// LeaveWith ends the entry after the release that has removed it, or failed to.
// The entry may be nil.
func (w *Entry) LeaveWith(released error) {
	if w == nil {
		return
	}
	if released != nil || w.doubt.Exists() {
		w.Leave()
	}
	w.Line.Exit()
}

// The budget of handing a lock on in this process, counted from its grant by
// Redis: while no other process is known to wait, and while one is. Without it
// a process with many goroutines would leave almost nothing to the others.
const (
	PassesAlone = 1000
	PassAlone   = 10 * time.Millisecond
	PassBeside  = time.Millisecond
)

// Next removes the waiter that a lock goes to, which Redis granted at since,
// and which was passed on so often. It returns nil if nobody waits, or if it is
// the turn of other processes.
func (q *Queue) Next(redisKey string, since time.Time, passes int16, s *lockspec.Spec) (next *Waiter, left *Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[redisKey]
	if l == nil || len(l.waiters) == 0 {
		return nil, nil
	}
	if held := time.Since(since); held > PassAlone || passes >= PassesAlone || l.remote && held > PassBeside {
		return nil, nil
	}
	i := 0
	if l.waiters[0].Entry == nil { // a request of it is under way
		i = 1
	}
	if i == len(l.waiters) || !s.SameHold(l.waiters[i].Call.Settings) {
		return nil, nil
	}
	return l.removeGranted(i)
}

// Return puts back a waiter that was removed in vain, ahead of those that came
// later, unless its call has left.
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

// Pass gives the waiter a hold that goes on in this process.
func (s *Waiter) Pass(hold any) { s.Turn <- Offer{Grant: hold} }

// Deliver gives the waiter a grant. It reports false if the call has left, or
// the client is closing. Until arrived the grant is in transit: Close sees to
// it.
func (s *Waiter) Deliver(grant any) bool {
	q := s.Line.Queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.left || q.host.Life.Err() != nil {
		return false
	}
	q.transit[grant] = struct{}{}
	s.Turn <- Offer{Grant: grant}
	return true
}

// Arrived notes that a lease was made of the grant, or that it was given back.
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

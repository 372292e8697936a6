package relock

import (
	"time"

	"github.com/relock-go/relock/internal/waitqueue"
)

// granted is when Redis granted the lease.
func (l *lease) granted() time.Time { return l.client.beliefs.start.Add(l.since) }

// pass gives the lock to the next call of the client that waits for it, without
// asking Redis: the lease goes on, under another level. Nothing may be under
// way that ends it: what cleans up after a request in doubt would end it under
// the next holder. It may be passed on while more than half of the lease is
// left, so that renewals have time, and while the key stays for no longer than
// the next holder asks for; mu is held.
func (l *lease) pass(from *level) (left *waitqueue.Entry, ok bool) {
	s := from.settings
	if !s.Kind.Passes || !s.Watched || s.MinHold > 0 || s.Fair || l.length > s.Lease || l.doubt.Exists() || time.Until(l.until) <= s.Lease/2 {
		return nil, false
	}
	if l.suspect || l.tokens.Spent() {
		return nil, false
	}
	next, left := l.client.queue.Next(l.protocol.lockKey(), l.granted(), l.passes, s)
	if next == nil {
		return nil, false
	}
	l.passTo(next)
	return left, true
}

// passTo makes the lease the next call's; mu is held.
func (l *lease) passTo(next *waitqueue.Waiter) *level {
	l.passes++
	l.tokens.Next()
	h := l.add(next.Call.Caller, time.Now(), next.Call.Settings)
	next.Pass(h)
	return h
}

// takeSpared returns the place that is spared for a lock that ends, for its
// release to take out.
func (l *lease) takeSpared() *waitqueue.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.passes == 0 {
		return nil
	}
	place := l.client.queue.TakeRetained(l.client.redisKey(l.key))
	if place == nil {
		return nil
	}
	end := ending{spared: place.Name}
	if l.ending != nil {
		end.heir = l.ending.heir
	}
	l.ending = &end
	return place
}

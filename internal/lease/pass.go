package lease

import (
	"time"

	"github.com/relock-go/relock/internal/waitqueue"
)

// granted is when Redis granted the lease.
func (l *Lease) granted() time.Time { return l.client.expiry.start.Add(l.since) }

// pass gives the lock to the next call of the client that waits for it, without
// asking Redis: the lease goes on, under another level. Nothing may be under
// way that ends it: what cleans up after a request in doubt would end it under
// the next holder. It may be passed on while more than half of the lease is
// left, so that renewals have time, and while the key stays for no longer than
// the next holder asks for; mu is held.
func (l *Lease) pass(from *Hold) (left *waitqueue.Entry, ok bool) {
	s := from.settings
	if !s.Kind.Passes || !s.Watched || s.MinHold > 0 || s.Fair || l.length > s.Lease || l.doubt.Exists() || time.Until(l.validUntil) <= s.Lease/2 {
		return nil, false
	}
	if l.suspect || l.tokens.Spent() {
		return nil, false
	}
	next, left := l.client.Queue.Next(l.protocol.LockKey(), l.granted(), l.passes, s)
	if next == nil {
		return nil, false
	}
	l.passTo(next)
	return left, true
}

// passTo makes the lease the next call's; mu is held.
func (l *Lease) passTo(next *waitqueue.Waiter) *Hold {
	l.passes++
	l.tokens.Next()
	h := l.add(next.Call.Caller, time.Now(), next.Call.Settings)
	next.Pass(h)
	return h
}

// takeRetained returns the place that is spared for a lock that ends, for its
// release to take out.
func (l *Lease) takeRetained() *waitqueue.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.passes == 0 {
		return nil
	}
	place := l.client.Queue.TakeRetained(l.client.RedisKey(l.key))
	if place == nil {
		return nil
	}
	end := ending{retained: place.Name}
	if l.ending != nil {
		end.heir = l.ending.heir
	}
	l.ending = &end
	return place
}

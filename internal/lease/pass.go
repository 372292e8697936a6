package lease

import (
	"time"

	"github.com/relock-go/relock/internal/waitqueue"
)

// pass gives the lock to the next local waiter without a request to Redis. The
// lease goes on with another hold; Mu must be held.
//
// No request that ends the lease may be under way. The release after an
// indeterminate acquire would end it for the next holder. More than half of the
// lease must be left, so that renewals have time. The key must not stay longer
// than the next holder requests. A lease of a fair call is never passed on,
// whatever its last level asked for.
func pass(l *Lease, from *Hold, now time.Time) (left *waitqueue.Entry, ok bool) {
	s := from.settings
	if l.claim != nil || !s.Kind.Passes || !s.Watched || s.MinHold > 0 || l.Settings.Fair || l.maxRequested > s.Lease ||
		l.indeterminate.Exists() || l.Until().Sub(now) <= s.Lease/2 {
		return nil, false
	}
	if l.IsSuspect() || l.tokens.Spent() {
		return nil, false
	}
	next, left := l.client.Local.Next(l.protocol.LockKey(), now.Sub(l.Granted()), l.passes, l.client.Limits.HandOffs, s)
	if next == nil {
		return nil, false
	}
	handTo(l, next, now)
	return left, true
}

// handTo gives the lease to the waiter next; Mu must be held.
func handTo(l *Lease, next *LocalWaiter, now time.Time) *Hold {
	l.passes++
	l.tokens.Next()
	h := l.add(next.Call.Caller, now, now, next.Call.Settings)
	next.Pass(Handed{Hold: h})
	return h
}

package waitqueue

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// minGrant is the least validity that a grant by message must have left,
// whatever its length. With less, the message is a hint.
const minGrant = 100 * time.Millisecond

// Claim is what a lease needs that a message has granted. Until the claim is
// answered, the lock is only reserved. See docs/grants.md.
type Claim struct {
	Call        script.Call   // claims the reservation
	Reservation string        // what the lock stores until then
	Drawn       time.Time     // the reservation was made after this
	Length      time.Duration // of the reservation
	Settled     func()        // must be called once the claim was answered, or the lease has ended
}

// admits reports whether a message for an entry is delivered now, see admit.
// The whole name of an entry with a nonce is published only after the lock was
// reserved for it. So that message is a grant, and not held back. queue.mu is
// held.
func (q *Queue) admits(w *Entry, whole bool) bool {
	if whole && w.Settings.GrantedByMessage() && !w.once && w.lastsLong() {
		w.marked = true
		return true
	}
	name := w.Name
	return q.admit(w.wakeups, func() { q.notify(name, w.Line.redisKey, false) })
}

// lastsLong reports whether three quarters of a grant by message are left, at
// least. The reservation was made after the name was drawn. The claim needs the
// time: it may be sent twice. After a longer wait, the round trip that a
// message saves is nothing. queue.mu is held.
func (w *Entry) lastsLong() bool {
	c := w.Settings.ClaimLease()
	left := time.Until(w.drawn.Add(c - lockspec.Drift(c)))
	return left >= max(c*3/4, minGrant)
}

// takeGrant reports whether a message has granted the lock to the entry, and
// its call can use it. The entry ends, but its hold stays known until the claim
// is settled.
func (w *Entry) takeGrant(ctx context.Context) bool {
	q := w.Line.Queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if !w.marked {
		return false
	}
	w.marked = false
	if !w.lastsLong() || ctx.Err() != nil || q.host.Life.Err() != nil {
		return false
	}
	q.forget(w)
	hold := w.hold
	q.unclaimed[hold] = struct{}{}
	w.Woken = false
	w.claim = &Claim{
		Call:        w.take(w.Settings.Kind.Queue.Claim),
		Reservation: lockspec.Reservation(w.Name), Drawn: w.drawn, Length: w.Settings.ClaimLease(),
		Settled: func() { q.settle(hold) },
	}
	return true
}

func (q *Queue) settle(hold string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.unclaimed, hold)
}

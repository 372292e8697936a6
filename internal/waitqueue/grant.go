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
// answered, the lock is only reserved. See docs/internals/grants.md.
type Claim struct {
	Call        script.Call   // claims the reservation
	Reservation string        // what the lock stores until then
	Drawn       time.Time     // the reservation was made after this
	Length      time.Duration // of the reservation
	Settled     func()        // must be called once the claim was answered, or the lease has ended
}

// deliverOrDelay reports whether a message for the entry is delivered now, see
// [wakeupLimit.allow]. The whole name of an entry with a nonce is published
// only after the lock was reserved for it. So that message is a grant, and not
// held back. base.mu is held.
func (w *Entry) deliverOrDelay(whole bool) bool {
	if whole && w.Settings.GrantedByMessage() && !w.once && w.lastsLong() {
		w.grantedByMessage = true
		return true
	}
	name := w.Name
	return w.wakeups.allow(w.Line.lines.base, func() { w.Line.lines.notify(name, w.Line.RedisKey, false) })
}

// lastsLong reports whether three quarters of a grant by message are left, at
// least. The reservation was made after the name was drawn. The claim needs the
// time: it may be sent twice. After a longer wait, the round trip that a
// message saves is nothing. base.mu is held.
func (w *Entry) lastsLong() bool {
	c := w.Settings.ClaimLease()
	left := time.Until(w.drawn.Add(c - lockspec.Drift(c)))
	return left >= max(c*3/4, minGrant)
}

// takeGrant reports whether a message has granted the lock to the entry, and
// its call can use it. The entry ends, but its hold stays known until the claim
// is settled.
func (w *Entry) takeGrant(ctx context.Context) bool {
	a := w.Line.lines
	a.mu.Lock()
	defer a.mu.Unlock()
	if !w.grantedByMessage {
		return false
	}
	w.grantedByMessage = false
	if !w.lastsLong() || ctx.Err() != nil || a.host.Life.Err() != nil {
		return false
	}
	w.forget()
	hold, name := w.hold, w.Name
	a.unclaimed[hold] = w.polled
	w.Woken = false
	w.claim = &Claim{
		Call:        w.take(w.Settings.Kind.Queue.Claim),
		Reservation: lockspec.Reservation(w.Name), Drawn: w.drawn, Length: w.Settings.ClaimLease(),
		Settled: func() { w.cancelStray(name, a.settle(hold)) },
	}
	return true
}

// settle forgets a claim, and returns the polls that may come late. Only the
// first call for a hold returns any.
func (a *lines) settle(hold string) (late script.Indeterminate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	late = a.unclaimed[hold]
	delete(a.unclaimed, hold)
	return late
}

package waitqueue

import (
	"context"
	"errors"
	"slices"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// Waiter is a call waiting in this process for an unfair lock. Only the first
// waiter of a line has an entry in Redis, on behalf of all. For a moment after
// a grant, Unlock hands the lock to the first waiter. A plain lock needs no
// request for that, a reentrant one needs one.
type Waiter struct {
	Line    *Line
	Call    *Call
	HandOff chan Offer // has room for one offer

	// Guarded by queue.mu.
	Entry *Entry // of the first waiter, while no request of the entry is under way
	taken bool   // was granted a hold while it was parked; its entry is another's since then
	out   bool   // is being granted a hold, and is no longer in the line
	left  bool   // did not wait for the hold that was under way to it
}

// Offer is what a waiter waits for. It is a grant, or the waiter becomes the
// first. Then it has the entry of the predecessor, if there is one.
type Offer struct {
	Grant any // a hold that is passed on, or a transferred lock; nil for the first waiter
	Entry *Entry
}

// Call is what the queue knows about a waiting call.
type Call struct {
	Caller       context.Context // the user's
	Ctx          context.Context // the caller's, limited by the block timeout
	Settings     *lockspec.Spec
	OwnerChanged chan struct{} // has a value after Nudge; nil if nothing calls it
	OwnerID      string        // of the owner that the lock would belong to; "" for a lock without owners
}

// Nudge makes the call check again, since its owner may have got the lock
// elsewhere. Messages for a RedLock call use it too.
func (c *Call) Nudge() {
	select {
	case c.OwnerChanged <- struct{}{}:
	default: // a check is pending already
	}
}

// Join adds a call as the last waiter. It fails if the queue limit is reached,
// or if the waiters are for another kind of lock.
func (l *Line) Join(c *Call) (*Waiter, error) {
	s := &Waiter{Line: l, Call: c, HandOff: l.Queue.turn()}
	l.Queue.mu.Lock()
	if err := l.checkJoin(c.Settings); err != nil {
		l.Queue.mu.Unlock()
		return nil, err
	}
	left := l.put(s, len(l.waiters))
	l.Queue.mu.Unlock()
	left.Leave()
	return s, nil
}

// ErrOtherKind is returned for a call that meets waiters for another kind of
// lock.
var ErrOtherKind = errors.New("the line is of another kind of lock")

// checkJoin returns an error if a call with settings s cannot join; queue.mu is
// held.
func (l *Line) checkJoin(s *lockspec.Spec) error {
	switch n := len(l.waiters); {
	case n > 0 && l.waiters[0].Call.Settings.Kind.Transfers != s.Kind.Transfers:
		return ErrOtherKind
	case s.QueueLimit > 0 && n >= int(s.QueueLimit):
		return errs.ErrQueueFull
	}
	return nil
}

// put inserts a waiter at index i. If it is the only one, it becomes the first,
// and is offered the retained entry. An entry that it cannot use is returned as
// left. queue.mu is held.
func (l *Line) put(s *Waiter, i int) (left *Entry) {
	l.waiters = slices.Insert(l.waiters, i, s)
	if len(l.waiters) == 1 {
		var place *Entry
		place, left = l.restore(s.Call.Settings)
		s.HandOff <- Offer{Entry: place}
	}
	return left
}

// Await waits for an offer, and reports whether it got one. It gets none if the
// wait ends first, or if the owner may have got the lock elsewhere.
func (s *Waiter) Await() (Offer, bool) {
	select {
	case o := <-s.HandOff:
		return o, true
	case <-s.Call.OwnerChanged:
	case <-s.Call.Ctx.Done():
	case <-s.Line.Queue.host.Life.Done():
	}
	return Offer{}, false
}

// Done gives the channel of a waiter to another one. The waiter must have
// received a hold that was passed on, which is the last of its offers.
func (s *Waiter) Done() {
	s.Line.Queue.turns.Put(s.HandOff)
	s.HandOff = nil
}

// Park allows a hand-off to the first waiter, while no request of its entry is
// under way, and no message has granted it the lock.
func (s *Waiter) Park(place *Entry) {
	s.Line.Queue.mu.Lock()
	defer s.Line.Queue.mu.Unlock()
	s.taken = false
	if !place.grantedByMessage {
		s.Entry = place
	}
}

// Unpark ends Park. It reports whether the waiter was granted the lock
// meanwhile. If so, its entry is no longer its own.
func (s *Waiter) Unpark() (taken bool) {
	s.Line.Queue.mu.Lock()
	defer s.Line.Queue.mu.Unlock()
	s.Entry = nil
	return s.taken
}

// Given returns the hold that was passed on to the first waiter. If offered is
// true, the waiter has received it already, as o. A transfer takes longer: the
// call waits for it as the other waiters do.
func (s *Waiter) Given(o Offer, offered bool) any {
	switch transfers := s.Call.Settings.Kind.Transfers; {
	case transfers && offered:
		s.HandOff <- o
	case !transfers && !offered:
		o = <-s.HandOff
	}
	return o.Grant
}

// Leave removes a waiter that got no hold from another call. It returns what
// the waiter was offered at the last moment. The entry of the first waiter goes
// to the next one, or is cancelled.
func (s *Waiter) Leave(place *Entry) (last Offer) {
	l, q := s.Line, s.Line.Queue
	q.mu.Lock()
	if s.out {
		return s.leaveOut()
	}
	i := slices.Index(l.waiters, s)
	l.waiters = slices.Delete(l.waiters, i, i+1)
	if i == 0 {
		select {
		case o := <-s.HandOff: // it became the first, and has not noticed
			place = o.Entry
		default:
		}
		place = l.promote(place)
	}
	q.mu.Unlock()
	place.Leave()
	return Offer{}
}

// leaveOut is Leave for a waiter that is being granted a hold. A hold that is
// passed on comes immediately. A transfer may take longer, so leaveOut does not
// wait for it. leaveOut unlocks queue.mu.
func (s *Waiter) leaveOut() Offer {
	q := s.Line.Queue
	if !s.Call.Settings.Kind.Transfers {
		q.mu.Unlock()
		return <-s.HandOff
	}
	defer q.mu.Unlock()
	s.left = true
	select {
	case o := <-s.HandOff:
		return o
	default:
		return Offer{}
	}
}

// promote makes the next waiter the first. It returns the entry if no waiter
// takes it over. queue.mu is held.
func (l *Line) promote(place *Entry) (left *Entry) {
	if len(l.waiters) == 0 {
		return place
	}
	next := l.waiters[0]
	if place != nil && !place.suits(next.Call.Settings) {
		left, place = place, nil
	}
	next.HandOff <- Offer{Entry: place}
	return left
}

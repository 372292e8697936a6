package localwait

import (
	"context"
	"errors"
	"slices"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Waiter is a call waiting in this process for an unfair lock. Only the first
// waiter of a line has an entry in Redis, on behalf of all. For a moment after
// a grant, Unlock hands the lock to the first waiter. A plain lock needs no
// request for that, a reentrant one needs one.
type Waiter[G comparable] struct {
	Line    *waitqueue.Line
	Call    *Call
	HandOff chan Offer[G] // has room for one offer
	of      *Waiters[G]

	// Guarded by of.mu.
	parked *waitqueue.Entry // of the first waiter, from Park to Unpark; a message may end its parking before
	taken  bool             // a hand-off has chosen it; an entry that it had is another's since then
	out    bool             // is being granted a hold, and is no longer in the line
	left   bool             // did not wait for the hold that was under way to it
}

// Offer is what a waiter waits for. It is a grant, or the waiter becomes the
// first. Then it has the entry of the predecessor, if there is one.
type Offer[G comparable] struct {
	Grant G // the zero value for the first waiter
	Entry *waitqueue.Entry
}

// IsGrant reports whether the offer is a grant.
func (o Offer[G]) IsGrant() bool { return o.Grant != *new(G) }

// Call is what is known about a waiting call.
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
func (a *Waiters[G]) Join(l *waitqueue.Line, c *Call) (*Waiter[G], error) {
	s := &Waiter[G]{Line: l, Call: c, HandOff: a.turns.Get().(chan Offer[G]), of: a}
	a.mu.Lock()
	all := a.byKey[l.RedisKey]
	if err := checkJoin(all, c.Settings); err != nil {
		a.mu.Unlock()
		return nil, err
	}
	left := a.put(s, len(all))
	a.mu.Unlock()
	left.Leave()
	return s, nil
}

// ErrOtherKind is returned for a call that meets waiters for another kind of
// lock.
var ErrOtherKind = errors.New("the line is of another kind of lock")

// checkJoin returns an error if a call with settings s cannot join the waiters.
func checkJoin[G comparable](all []*Waiter[G], s *lockspec.Spec) error {
	switch n := len(all); {
	case n > 0 && all[0].Call.Settings.Kind.Transfers != s.Kind.Transfers:
		return ErrOtherKind
	case s.QueueLimit > 0 && n >= int(s.QueueLimit):
		return errs.ErrQueueFull
	}
	return nil
}

// put inserts a waiter at index i. If it is the only one, it becomes the first,
// and is offered the retained entry. An entry that it cannot use is returned as
// left. mu is held.
func (a *Waiters[G]) put(s *Waiter[G], i int) (left *waitqueue.Entry) {
	if len(a.insert(s, i)) == 1 {
		var place *waitqueue.Entry
		place, left = s.Line.Restore(s.Call.Settings)
		s.HandOff <- Offer[G]{Entry: place}
	}
	return left
}

// Done gives the channel of a waiter to another one. The waiter must have
// received a hold that was passed on, which is the last of its offers.
func (s *Waiter[G]) Done() {
	s.of.turns.Put(s.HandOff)
	s.HandOff = nil
}

// Park allows a hand-off to the first waiter, while no request of its entry is
// under way, and no message has granted it the lock.
func (s *Waiter[G]) Park(place *waitqueue.Entry) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.taken, s.parked = false, place
	place.Park()
}

// Unpark ends Park. It reports whether the waiter was granted the lock
// meanwhile. If so, its entry is no longer its own.
func (s *Waiter[G]) Unpark() (taken bool) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.parked = nil
	return s.taken
}

// Given returns the hold that was passed on to the first waiter. If offered is
// true, the waiter has received it already, as o. A transfer takes longer: the
// call waits for it as the other waiters do.
func (s *Waiter[G]) Given(o Offer[G], offered bool) G {
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
func (s *Waiter[G]) Leave(place *waitqueue.Entry) (last Offer[G]) {
	a := s.of
	a.mu.Lock()
	if s.out {
		return s.leaveOut()
	}
	i := slices.Index(a.byKey[s.Line.RedisKey], s)
	rest := a.remove(s, i)
	if i == 0 {
		select {
		case o := <-s.HandOff: // it became the first, and has not noticed
			place = o.Entry
		default:
		}
		place = promote(rest, place)
	}
	a.mu.Unlock()
	place.Leave()
	return Offer[G]{}
}

// leaveOut is Leave for a waiter that is being granted a hold. A hold that is
// passed on comes immediately. A transfer may take longer, so leaveOut does not
// wait for it. leaveOut unlocks mu.
func (s *Waiter[G]) leaveOut() Offer[G] {
	if !s.Call.Settings.Kind.Transfers {
		s.of.mu.Unlock()
		return <-s.HandOff
	}
	defer s.of.mu.Unlock()
	s.left = true
	select {
	case o := <-s.HandOff:
		return o
	default:
		return Offer[G]{}
	}
}

// promote makes the next waiter the first. It returns the entry if no waiter
// takes it over. mu is held.
func promote[G comparable](all []*Waiter[G], place *waitqueue.Entry) (left *waitqueue.Entry) {
	if len(all) == 0 {
		return place
	}
	if place != nil && !place.Suits(all[0].Call.Settings) {
		left, place = place, nil
	}
	all[0].HandOff <- Offer[G]{Entry: place}
	return left
}

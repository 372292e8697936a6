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
// a grant, Unlock hands the lock to the first waiter: a plain lock without a
// request, a reentrant one by one request.
type Waiter struct {
	Line *Line
	Call *Call
	Turn chan Offer // has room for one

	// Guarded by queue.mu.
	Entry *Entry // of the first waiter, while no request of it is under way
	taken bool   // was given a hold while it was parked: its entry is another's since
	out   bool   // is given a hold, and is not in the line any more
	left  bool   // did not wait for a hold that was under way to it
}

// Offer is what a waiter waits for: a grant; or to be the first, then with the
// entry that its predecessor has left, if any.
type Offer struct {
	Grant any // a hold that is passed on, or a lock that was transferred; nil for an entry
	Entry *Entry
}

// Call is what the queue knows of a call that waits.
type Call struct {
	Caller   context.Context // of the user
	Ctx      context.Context // the caller's, cut by the block timeout
	Settings *lockspec.Spec
	Again    chan struct{} // has one when the owner may have got the lock elsewhere; nil where nobody says so
	Attempt  any           // the caller's own, which the queue only carries
}

// Nudge makes the call look again whether its owner has the lock.
func (c *Call) Nudge() {
	select {
	case c.Again <- struct{}{}:
	default: // it will anyway
	}
}

// Join adds a call as the last waiter. It fails if as many wait as may, and if
// the line is of another kind of lock.
func (l *Line) Join(c *Call) (*Waiter, error) {
	s := &Waiter{Line: l, Call: c, Turn: make(chan Offer, 1)}
	l.Queue.mu.Lock()
	if err := l.admits(c.Settings); err != nil {
		l.Queue.mu.Unlock()
		return nil, err
	}
	left := l.put(s, len(l.waiters))
	l.Queue.mu.Unlock()
	left.Leave()
	return s, nil
}

// ErrOtherKind is the error of a call that meets waiters for a lock of another
// kind.
var ErrOtherKind = errors.New("the line is of another kind of lock")

// admits returns why a call cannot join; queue.mu is held.
func (l *Line) admits(s *lockspec.Spec) error {
	switch n := len(l.waiters); {
	case n > 0 && l.waiters[0].Call.Settings.Kind.Transfers != s.Kind.Transfers:
		return ErrOtherKind
	case s.QueueLimit > 0 && n >= int(s.QueueLimit):
		return errs.ErrQueueFull
	}
	return nil
}

// put inserts a waiter; if it is the only one, it is the first. It returns an
// entry that is of no use any more; queue.mu is held.
func (l *Line) put(s *Waiter, i int) (left *Entry) {
	l.waiters = slices.Insert(l.waiters, i, s)
	if len(l.waiters) == 1 {
		var place *Entry
		place, left = l.restore(s.Call.Settings)
		s.Turn <- Offer{Entry: place}
	}
	return left
}

// Await waits for an offer. It returns false if the wait ended first, or the
// call's owner may have got the lock elsewhere.
func (s *Waiter) Await() (Offer, bool) {
	select {
	case o := <-s.Turn:
		return o, true
	case <-s.Call.Again:
	case <-s.Call.Ctx.Done():
	case <-s.Line.Queue.host.Life.Done():
	}
	return Offer{}, false
}

// Park lets the first waiter be given the lock while no request of its entry is
// under way.
func (s *Waiter) Park(place *Entry) {
	s.Line.Queue.mu.Lock()
	defer s.Line.Queue.mu.Unlock()
	s.Entry, s.taken = place, false
}

// Unpark ends Park. It reports whether the waiter was given the lock meanwhile;
// its entry has gone to another then.
func (s *Waiter) Unpark() (taken bool) {
	s.Line.Queue.mu.Lock()
	defer s.Line.Queue.mu.Unlock()
	s.Entry = nil
	return s.taken
}

// Given returns the hold that was passed on to the first waiter, which may have
// received it already. A transfer takes longer: the call waits for it as the
// other waiters do.
func (s *Waiter) Given(o Offer, offered bool) any {
	switch transfers := s.Call.Settings.Kind.Transfers; {
	case transfers && offered:
		s.Turn <- o
	case !transfers && !offered:
		o = <-s.Turn
	}
	return o.Grant
}

// Leave removes a waiter that got no hold from another call, and returns what
// it was offered at the last moment. The first leaves its entry to the next, or
// cancels it.
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
		case o := <-s.Turn: // it became the first, and did not come to know
			place = o.Entry
		default:
		}
		place = l.promote(place)
	}
	q.mu.Unlock()
	place.Leave()
	return Offer{}
}

// leaveOut is Leave for a waiter that is given a hold. A hold that is passed on
// comes immediately; nobody waits for a transfer. It unlocks queue.mu.
func (s *Waiter) leaveOut() Offer {
	q := s.Line.Queue
	if !s.Call.Settings.Kind.Transfers {
		q.mu.Unlock()
		return <-s.Turn
	}
	defer q.mu.Unlock()
	s.left = true
	select {
	case o := <-s.Turn:
		return o
	default:
		return Offer{}
	}
}

// promote makes the next call the first, and returns the entry if it goes to
// nobody; queue.mu is held.
func (l *Line) promote(place *Entry) (left *Entry) {
	if len(l.waiters) == 0 {
		return place
	}
	next := l.waiters[0]
	if place != nil && !place.suits(next.Call.Settings) {
		left, place = place, nil
	}
	next.Turn <- Offer{Entry: place}
	return left
}

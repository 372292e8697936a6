package relock

import (
	"errors"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// seat is the place of one call in the line of its client for an unfair lock. The first of a line waits in Redis, for
// all of them: one client is one remote waiter, and the others wait in memory. An Unlock gives the lock to the first
// seat, for a moment: a plain one without asking Redis, see lease.pass, and a reentrant one by one request, see transfer.
type seat struct {
	line *line
	wait *wait
	turn chan offer // has room for one

	// Guarded by queue.mu.
	place *queued // of the first seat, while nothing of it is under way
	taken bool    // was given a hold while it rested: the place is another's since
	out   bool    // is given a hold, and is not in the line any more
	left  bool    // did not wait for a hold that was under way to it
}

// offer is what a seat waits for: a hold, or a reentrant one that was transferred; or to be the first, then with the
// place in Redis that the one before has left, if any.
type offer struct {
	hold     *level
	transfer *transfer
	place    *queued
}

// sit takes the last seat. It fails when there are as many before as may wait, and beside calls for a lock of the other kind.
func (l *line) sit(w *wait) (*seat, error) {
	s := &seat{line: l, wait: w, turn: make(chan offer, 1)}
	l.queue.mu.Lock()
	if err := l.admits(w.settings); err != nil {
		l.queue.mu.Unlock()
		return nil, err
	}
	left := l.put(s, len(l.seats))
	l.queue.mu.Unlock()
	left.leave()
	return s, nil
}

// errOtherKind says that calls for a lock of the other kind sit in the line.
var errOtherKind = errors.New("the line is of another kind of lock")

// admits says why a call cannot sit; queue.mu is held.
func (l *line) admits(s *lockspec.Spec) error {
	switch n := len(l.seats); {
	case n > 0 && l.seats[0].wait.settings.Kind.Transfers != s.Kind.Transfers:
		return errOtherKind
	case s.QueueLimit > 0 && n >= s.QueueLimit:
		return ErrQueueFull
	}
	return nil
}

// put gives the seat its place in the line; the only one is the first. It returns a place in Redis that is of no use any
// more; queue.mu is held.
func (l *line) put(s *seat, i int) (left *queued) {
	l.seats = slices.Insert(l.seats, i, s)
	if len(l.seats) == 1 {
		var place *queued
		place, left = l.restore(s.wait.settings)
		s.turn <- offer{place: place}
	}
	return left
}

// await waits for an offer. It says no when the wait ended first, and when the call's owner has got the lock elsewhere.
func (s *seat) await() (offer, bool) {
	select {
	case o := <-s.turn:
		return o, true
	case <-s.wait.again:
	case <-s.wait.ctx.Done():
	case <-s.wait.client.life.Done():
	}
	return offer{}, false
}

// rest lets the seat, which is the first, be given the lock while nothing of its place is under way.
func (s *seat) rest(place *queued) {
	s.line.queue.mu.Lock()
	defer s.line.queue.mu.Unlock()
	s.place, s.taken = place, false
}

// rise ends rest. It says whether the seat was given the lock meanwhile; its place has gone to another then.
func (s *seat) rise() (taken bool) {
	s.line.queue.mu.Lock()
	defer s.line.queue.mu.Unlock()
	s.place = nil
	return s.taken
}

// given is the hold that was passed on to the first seat, which may have been offered it already. One that is
// transferred takes a while: the call waits for it as those do that are not the first.
func (s *seat) given(o offer, offered bool) *level {
	switch transfers := s.wait.settings.Kind.Transfers; {
	case transfers && offered:
		s.turn <- o
	case !transfers && !offered:
		o = <-s.turn
	}
	return o.hold
}

// leave ends a seat that got no hold from another, and returns what it was offered at the last moment. The first leaves
// its place in Redis to the next one, or gives it up.
func (s *seat) leave(place *queued) (last offer) {
	l, q := s.line, s.line.queue
	q.mu.Lock()
	if s.out {
		return s.leaveOut()
	}
	i := slices.Index(l.seats, s)
	l.seats = slices.Delete(l.seats, i, i+1)
	if i == 0 {
		select {
		case o := <-s.turn: // it became the first, and did not come to know
			place = o.place
		default:
		}
		place = l.promote(place)
	}
	q.mu.Unlock()
	place.leave()
	return offer{}
}

// leaveOut is leave for a seat that is given a hold. One that is passed on comes at once; one that is transferred is not
// waited for. It gives queue.mu back.
func (s *seat) leaveOut() offer {
	q := s.line.queue
	if !s.wait.settings.Kind.Transfers {
		q.mu.Unlock()
		return <-s.turn
	}
	defer q.mu.Unlock()
	s.left = true
	select {
	case o := <-s.turn:
		return o
	default:
		return offer{}
	}
}

// promote makes a call the first, and returns the place in Redis when it goes to nobody; queue.mu is held.
func (l *line) promote(place *queued) (left *queued) {
	if len(l.seats) == 0 {
		return place
	}
	next := l.seats[0]
	if place != nil && !place.suits(next.wait.settings) {
		left, place = place, nil
	}
	next.turn <- offer{place: place}
	return left
}

// unseat takes a seat out that is given the lock. The first one's place goes to the next one. When nobody else sits it
// is spared, as its caller mostly comes back soon: meanwhile it is nobody's, so that what is handed over to it is passed
// on at once. It returns a place that is of no use any more; queue.mu is held.
func (l *line) unseat(i int) (s *seat, left *queued) {
	s = l.seats[i]
	l.seats = slices.Delete(l.seats, i, i+1)
	s.out, s.taken = true, true
	switch {
	case i > 0:
	case len(l.seats) > 0:
		left = l.promote(s.place)
	default:
		l.queue.forget(s.place)
		l.place, l.spared = s.place, time.Now()
		l.calls++ // keeps the line
	}
	return s, left
}

// restore returns the place that was spared, to be used or to be given up; queue.mu is held. Nobody has polled for it:
// after a while it may have been taken for gone.
func (l *line) restore(s *lockspec.Spec) (place, left *queued) {
	place = l.place
	if place == nil {
		return nil, nil
	}
	l.place = nil
	l.calls--
	if !place.suits(s) {
		return nil, place
	}
	l.queue.waits[place.hold] = place
	l.waits = slices.Insert(l.waits, 0, place)
	at := time.Now()
	if at.Sub(l.spared) < l.interval {
		at = at.Add(l.nextPoll(-1))
	}
	l.queue.poller.AddEarlier(l.poll, at)
	return place, nil
}

// takeSpared returns the place that is spared for a lock that ends, for its release to take out.
func (l *lease) takeSpared() *queued {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.passes == 0 {
		return nil
	}
	q := l.client.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.lines[l.client.redisKey(l.key)]
	if line == nil || line.place == nil {
		return nil
	}
	place := line.place
	end := ending{spared: place.name}
	if l.ending != nil {
		end.heir = l.ending.heir
	}
	line.place, l.ending = nil, &end
	return place
}

// goneWith ends the place after the release that has taken it out, or failed to; there may be none.
func (w *queued) goneWith(released error) {
	if w == nil {
		return
	}
	if released != nil || w.doubt.Exists() {
		w.leave()
	}
	w.line.exit()
}

// The budget of passing a lock on in memory, counted from its grant by Redis: while no other process is known to wait,
// and while one is. Without it, a process with many goroutines would leave next to nothing to the others.
const (
	passesAlone = 1000
	passAlone   = 10 * time.Millisecond
	passBeside  = time.Millisecond
)

// next takes the seat out that a lock is passed on to, which was granted by Redis at since and passed on so often; nil
// when there is none, or when it is the turn of others.
func (q *queue) next(redisKey string, since time.Time, passes int16, s *lockspec.Spec) (next *seat, left *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[redisKey]
	if l == nil || len(l.seats) == 0 {
		return nil, nil
	}
	if held := time.Since(since); held > passAlone || passes >= passesAlone || l.remote && held > passBeside {
		return nil, nil
	}
	i := 0
	if l.seats[0].place == nil { // something of it is under way
		i = 1
	}
	if i == len(l.seats) || !s.SameHold(l.seats[i].wait.settings) {
		return nil, nil
	}
	return l.unseat(i)
}

// granted is when Redis granted the lease.
func (l *lease) granted() time.Time { return l.client.beliefs.start.Add(l.since) }

// pass gives the lock to the next call of the client that waits for it, without asking Redis: the lease goes on, under
// another level. Nothing may be under way that ends it: what cleans up after a request in doubt would end it under the
// next holder. It may be passed on while more than half of the lease is left, so that renewals have time, and while the
// key stays for no longer than the next holder asks for; mu is held.
func (l *lease) pass(from *level) (left *queued, ok bool) {
	s := from.settings
	if !s.Kind.Passes || !s.Watched || s.MinHold > 0 || s.Fair || l.length > s.Lease || l.doubt.Exists() || time.Until(l.until) <= s.Lease/2 {
		return nil, false
	}
	if l.suspect || l.tokens.Spent() {
		return nil, false
	}
	next, left := l.client.queue.next(l.protocol.lockKey(), l.granted(), l.passes, s)
	if next == nil {
		return nil, false
	}
	l.passes++
	l.tokens.Next()
	next.turn <- offer{hold: l.add(next.wait.caller, time.Now(), next.wait.settings)}
	return left, true
}

package acquire

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/script"
)

// A call that waits for a RedLock has a wait in the list of each node that has answered that others hold the lock there.
// A node that gives the lock back tells the first of its list. The message of one is enough for the next round: should that
// come before other nodes were given back as well, they tell the call too, which is in their lists. A wait promises
// nothing, and no node depends on another: a message that is lost costs the time until the call asks by itself.
//
// Only a hold that had a quorum tells of its end, and a call that leaves: it may have been told in another's place. Rounds
// that fail do not: they would wake each other without an end.

// redWaits is a call's waits, by node; none of a call that does not wait.
type redWaits struct {
	lock *Quorum

	mu   sync.Mutex
	all  []redPlace
	over bool // the call has ended
}

// redPlace is what is known of one of them.
type redPlace struct {
	name    string
	listed  bool // the node may have it in its list
	refused bool // nothing but the lock may be named there
}

func newRedWaits(l *Quorum, w *wait) *redWaits {
	s := &redWaits{lock: l}
	if !w.block {
		return s
	}
	if w.Again == nil {
		w.Again = make(chan struct{}, 1)
	}
	for _, c := range l.nodes {
		s.all = append(s.all, redPlace{name: c.Queue.Listen(w.Nudge)})
	}
	return s
}

// name is what to ask a node to list; "" for nothing.
func (s *redWaits) name(node int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || s.all[node].refused {
		return ""
	}
	return s.all[node].name
}

// note takes in what became of a request that lists the wait. One that is answered after the call has ended is undone.
func (s *redWaits) note(node int, o driver.Result, d script.Indeterminate) {
	if o.Sent.IsZero() && !d.Exists() {
		return
	}
	code, _ := script.ReadGrant(o.Reply)
	s.mu.Lock()
	place := &s.all[node]
	place.refused = driver.AreKeysRefused(o.Err)
	place.listed = !place.refused && (o.Err != nil || code == script.Other)
	leave := s.over && place.listed
	s.mu.Unlock()
	if leave {
		s.leave(node)
	}
}

// end takes the waits out of the lists.
func (s *redWaits) end() {
	s.mu.Lock()
	s.over = true
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for node, place := range all {
		s.lock.nodes[node].Queue.Unlisten(place.name)
		if place.listed {
			s.leave(node)
		}
	}
}

func (s *redWaits) leave(node int) {
	c := s.lock.nodes[node]
	c.Queue.Unwait(s.all[node].name, c.RedisKey(s.lock.Key))
}

// rest is how long a call may wait for a message after a round that failed. While one hold has a quorum that is until the
// first of its leases ends, for a period at most, when a node will tell of it; else the poll interval, give or take a half,
// so that calls that share the nodes out among them do not do so again. 0 leaves it at the poll interval.
func (r *round) rest(err error) time.Duration {
	s := &r.lock.part
	if !errors.Is(err, errs.ErrLockAcquiredByOthers) {
		return 0
	}
	holder := r.holder()
	if holder == "" {
		return s.Poll/2 + rand.N(s.Poll)
	}
	left, tells := s.Period(), false
	for _, v := range r.others {
		if v.holder == holder {
			left, tells = min(left, v.left), tells || v.tells
		}
	}
	if !tells {
		return 0
	}
	return max(left, s.Poll) + rand.N(s.Poll/5+1)
}

// holder is the hold that has a quorum; "" when there is none, or the nodes do not say.
func (r *round) holder() string {
	nodes := map[string]int{}
	for _, v := range r.others {
		nodes[v.holder]++
		if nodes[v.holder] >= r.lock.need {
			return v.holder
		}
	}
	return ""
}

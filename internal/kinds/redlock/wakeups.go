package redlock

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// A waiting call for a RedLock is in the waiter list of each node that answered
// that others hold the lock there. A release on a node notifies the first
// waiter of its list. One notification is enough for the next round. That round
// may come before other nodes are released. When they are, they notify the call
// too, since it is in their lists. A list promises nothing to its waiters, and
// no node depends on another. A lost notification costs the time until the next
// poll.
//
// A hold that had a quorum notifies waiters when it ends. A call that leaves
// notifies, too, since it may have been notified instead of another. Failed
// rounds do not notify: they would wake each other forever.

// waiters has the waiters of one call, by node. A call that does not wait has
// none.
type waiters struct {
	lock *Lock

	mu   sync.Mutex
	all  []nodeEntry // by node
	over bool        // the call has ended
}

// nodeEntry is what the call knows of its waiter on one node.
type nodeEntry struct {
	name    string
	listed  bool // the node may have it in its list
	refused bool // the client may name only the lock there
}

func newWaiters(l *Lock, w *acquire.Wait) *waiters {
	s := &waiters{lock: l}
	if !w.Block {
		return s
	}
	if w.OwnerChanged == nil {
		w.OwnerChanged = make(chan struct{}, 1)
	}
	for _, c := range l.nodes {
		name := c.Queue.NewHold() + ":" + string(lockspec.Quorum.Wait)
		c.Queue.Listen(c.RedisKey(l.Key), name, w.Nudge)
		s.all = append(s.all, nodeEntry{name: name})
	}
	return s
}

// name returns the waiter that a node should list, or "" for none.
func (s *waiters) name(node int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || s.all[node].refused {
		return ""
	}
	return s.all[node].name
}

// note records the result of a request that lists the waiter. If the call has
// ended by then, the waiter leaves the list again.
func (s *waiters) note(node int, o driver.Result, d script.Indeterminate) {
	if o.Sent.IsZero() && !d.Exists() {
		return
	}
	code, _ := script.ReadGrant(o.Reply)
	s.mu.Lock()
	place := &s.all[node]
	place.refused = driver.AreKeysRefused(o.Err)
	place.listed = !place.refused && (o.Err != nil || code == script.NotHeld)
	leave := s.over && place.listed
	s.mu.Unlock()
	if leave {
		s.leave(node)
	}
}

// end removes the waiters from the lists.
func (s *waiters) end() {
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

// leave removes the waiter from the list of a node. The request is retried for
// up to a second. A waiter that stays is removed by a release, or with the
// list.
func (s *waiters) leave(node int) {
	c := s.lock.nodes[node]
	c.Retrier.BestEffort(waitqueue.CancelOf(c.RedisKey(s.lock.Key), s.all[node].name, false))
}

// rest returns how long a call may wait for a notification after a failed
// round:
//
//   - If one hold has a quorum and a node will notify the call: until the first
//     lease of that hold ends. That is a period at most.
//   - If others hold nodes but no hold has a quorum: the poll interval, half of
//     it more or less. So calls that shared the nodes among them do not do so
//     again.
//   - Otherwise: 0, which leaves the pause at the poll interval.
func (r *round) rest(err error) time.Duration {
	s := &r.lock.part
	if !errors.Is(err, errs.ErrLockAcquiredByOthers) {
		return 0
	}
	holder := r.holder()
	if holder == "" {
		return s.Poll/2 + rand.N(s.Poll)
	}
	left, notifies := s.Period(), false
	for _, v := range r.others {
		if v.holder == holder {
			left, notifies = min(left, v.left), notifies || v.notifies
		}
	}
	if !notifies {
		return 0
	}
	return max(left, s.Poll) + rand.N(s.Poll/5+1)
}

// holder returns the hold that has a quorum. It returns "" if there is none, or
// if the nodes do not name it.
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

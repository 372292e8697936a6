package localwait

import (
	"context"
	"slices"
	"sync"
)

// Waiters has the local waiters of a client, in a line for each lock. G is what
// one call hands to another.
type Waiters[G comparable] struct {
	life  context.Context // is cancelled with the client
	turns sync.Pool       // channels of waiters that have got a hold

	mu    sync.Mutex
	byKey map[string][]*Waiter[G] // the oldest first, by the lock's key in Redis
	spare []*Waiter[G]            // the memory of a line that has ended
	// Grants that were delivered to a call. It has neither made a lease from
	// them nor released them yet.
	transit map[G]struct{}
}

// New returns the local waiters of a client, for as long as life is not
// cancelled.
func New[G comparable](life context.Context) *Waiters[G] {
	return &Waiters[G]{life: life, byKey: map[string][]*Waiter[G]{}, transit: map[G]struct{}{}}
}

// turn returns the channel of a waiter of this client that has got a hold, or a
// new one. No client uses one of another: a bubble of testing/synctest forbids
// that.
func (a *Waiters[G]) turn() chan Offer[G] {
	if c, ok := a.turns.Get().(chan Offer[G]); ok {
		return c
	}
	return make(chan Offer[G], 1)
}

// insert inserts a waiter at index i of its line, and returns the line. mu is
// held.
func (a *Waiters[G]) insert(s *Waiter[G], i int) []*Waiter[G] {
	all := a.byKey[s.Line.RedisKey]
	if all == nil {
		all, a.spare = a.spare, nil
	}
	all = slices.Insert(all, i, s)
	a.byKey[s.Line.RedisKey] = all
	return all
}

// remove removes the waiter at index i of its line, and returns the others. mu
// is held.
func (a *Waiters[G]) remove(s *Waiter[G], i int) []*Waiter[G] {
	all := slices.Delete(a.byKey[s.Line.RedisKey], i, i+1)
	if len(all) > 0 {
		a.byKey[s.Line.RedisKey] = all
		return all
	}
	delete(a.byKey, s.Line.RedisKey)
	a.spare = all
	return nil
}

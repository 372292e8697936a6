package localwait

import (
	"context"
	"slices"
	"sync"
)

// Waiters has the local waiters of a client, in a line for each lock. G is what
// one call hands to another.
type Waiters[G comparable] struct {
	life context.Context // is cancelled with the client
	// Channels of waiters that have got a hold. No client uses one of another:
	// a bubble of testing/synctest forbids that.
	turns sync.Pool

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
	return &Waiters[G]{
		life: life, turns: sync.Pool{New: func() any { return make(chan Offer[G], 1) }},
		byKey: map[string][]*Waiter[G]{}, transit: map[G]struct{}{},
	}
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
	a.byKey[s.Line.RedisKey] = all
	if len(all) == 0 {
		delete(a.byKey, s.Line.RedisKey)
		a.spare = all
	}
	return all
}

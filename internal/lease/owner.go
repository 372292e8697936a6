package lease

import (
	"context"
	"sync"

	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/lockspec"
)

// Owners are the owners of a client that have a lock, or a call under way.
type Owners struct {
	client *client
	mu     sync.Mutex
	all    map[OwnerKey]*Owner
}

// OwnerKey identifies an owner of a client, for one lock.
type OwnerKey struct {
	Lock, ID string
	Family   lockspec.Family
}

// Owner is one pair of key and owner of a client, with its lease if it has one.
type Owner struct {
	of    *Owners
	key   OwnerKey
	turn  chan struct{} // its mutex, see take
	users int           // calls under way, and one for the lease; guarded by Owners.mu
	lease *Lease        // until its last level is unlocked; guarded by turn

	mu    sync.Mutex
	waits map[*localwait.Call]struct{} // waiting calls of the owner
}

func newOwners(c *client) *Owners { return &Owners{client: c, all: map[OwnerKey]*Owner{}} }

// Enter returns the owner with this key, and creates it if there is none. Each
// Enter needs one Exit.
func (s *Owners) Enter(key OwnerKey) *Owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.all[key]
	if o == nil {
		o = &Owner{of: s, key: key, turn: make(chan struct{}, 1)}
		s.all[key] = o
	}
	o.users++
	return o
}

// Exit undoes one Enter.
func (o *Owner) Exit() {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	o.users--
	if o.users == 0 {
		delete(o.of.all, o.key)
	}
}

// take locks the mutex of the owner, which serialises the changes of its
// levels. It is held while a request is under way, but never while a waiter
// sleeps. Its holder unlocks it when the server has answered, or after the
// command timeout. A lock without an owner, nil, needs none.
func (o *Owner) take() {
	if o != nil {
		o.turn <- struct{}{}
	}
}

// takeUntil locks the mutex unless ctx is cancelled first. It reports whether
// it did.
func (o *Owner) takeUntil(ctx context.Context) bool {
	select {
	case o.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (o *Owner) give() {
	if o != nil {
		<-o.turn
	}
}

// Join registers a waiting call. It is notified when another call of the owner
// gets the lock.
func (o *Owner) Join(w *localwait.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waits == nil {
		o.waits = map[*localwait.Call]struct{}{}
	}
	w.OwnerChanged = make(chan struct{}, 1)
	o.waits[w] = struct{}{}
}

// Leave undoes Join.
func (o *Owner) Leave(w *localwait.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waits, w)
}

// wakeOthers makes the owner's other waiting calls check for a lease of the
// owner.
func (o *Owner) wakeOthers(own *localwait.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for w := range o.waits {
		if w != own {
			w.Nudge()
		}
	}
}

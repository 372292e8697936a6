package etcdlock

import (
	"context"
	"fmt"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/carried"
)

// owner is one owner of one lock (see [relock.ContextWithOwner]), with its
// grant if it has one.
type owner struct {
	key  ownerKey
	turn turn // held by the call that may acquire

	// Guarded by sessions.mu.
	users int    // calls under way, and one for the grant
	grant *grant // until its last level is unlocked
}

type ownerKey struct{ lock, id string }

// holders has which locks one Locker holds, and who their owners are.
type holders struct {
	*sessions
	owners map[ownerKey]*owner // guarded by mu, as held
	held   map[string]*grant   // the newest of each lock, until it ends
}

// reenter adds a level to the hold that ctx carries, and reports whether ctx
// carries a hold of the lock that is not unlocked.
func (all *holders) reenter(ctx context.Context, name string) (h *level, ok bool, err error) {
	carries := carried.By(ctx) // without mu: it calls the caller's context, which may take locks
	all.mu.Lock()
	defer all.mu.Unlock()
	for c := carries; c != nil; c = c.Next {
		h, ok := c.Hold.(*level)
		if ok && h.grant.holders == all && h.grant.name == name && !h.unlocked {
			h, err := h.grant.deeperLocked(ctx)
			return h, true, err
		}
	}
	return nil, false, nil
}

// ownerOf returns the owner that ctx names, or nil. Each owner that it returns
// needs one exit.
func (all *holders) ownerOf(ctx context.Context, name string) (*owner, error) {
	id, ok := carried.Owner(ctx)
	switch {
	case !ok:
		return nil, nil
	case id == "" || len(id) > maxOwner:
		return nil, fmt.Errorf("%w: ContextWithOwner: id of %d bytes is not 1 to %d", relock.ErrInvalid, len(id), maxOwner)
	}
	key := ownerKey{name, id}
	all.mu.Lock()
	defer all.mu.Unlock()
	o := all.owners[key]
	if o == nil {
		o = &owner{key: key, turn: newTurn()}
		all.owners[key] = o
	}
	o.users++
	return o, nil
}

func (all *holders) exit(o *owner) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.exitLocked(o)
}

func (all *holders) exitLocked(o *owner) {
	o.users--
	if o.users == 0 {
		delete(all.owners, o.key)
	}
}

// deeper adds a level to the owner's grant, and reports whether the owner has
// one.
func (all *holders) deeper(ctx context.Context, o *owner) (h *level, ok bool, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if o.grant == nil {
		return nil, false, nil
	}
	h, err = o.grant.deeperLocked(ctx)
	return h, true, err
}

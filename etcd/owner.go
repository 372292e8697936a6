package etcdlock

import (
	"context"
	"fmt"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/errs"
)

// owner is one owner of one lock (see [relock.ContextWithOwner]), with its
// grant if it has one.
type owner struct {
	key  ownerKey
	turn turn // held by the call that may acquire

	// Guarded by Locker.mu.
	users int    // calls under way, and one for the grant
	grant *grant // until its last level is unlocked
}

type ownerKey struct{ lock, id string }

// reenter adds a level to the hold that ctx carries, and reports whether ctx
// carries a hold of the lock that is not unlocked.
func (l *Locker) reenter(ctx context.Context, name string) (h *level, ok bool, err error) {
	carries := carried.By(ctx) // without mu: it calls the caller's context, which may take locks
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := carries; c != nil; c = c.Next {
		h, ok := c.Hold.(*level)
		if ok && h.grant.locker == l && h.grant.name == name && !h.unlocked {
			h, err := h.grant.deeperLocked(ctx)
			return h, true, err
		}
	}
	return nil, false, nil
}

// deeperLocked adds a level, unless the grant was lost.
func (g *grant) deeperLocked(ctx context.Context) (*level, error) {
	if err := g.checkLocked(); err != nil {
		return nil, errs.OfLevel(err)
	}
	return g.pushLocked(ctx), nil
}

// ownerOf returns the owner that ctx names, or nil. Each owner that it returns
// needs one exit.
func (l *Locker) ownerOf(ctx context.Context, name string) (*owner, error) {
	id, ok := carried.Owner(ctx)
	switch {
	case !ok:
		return nil, nil
	case id == "" || len(id) > maxOwner:
		return nil, fmt.Errorf("%w: ContextWithOwner: id of %d bytes is not 1 to %d", relock.ErrInvalid, len(id), maxOwner)
	}
	key := ownerKey{name, id}
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.owners[key]
	if o == nil {
		o = &owner{key: key, turn: newTurn()}
		l.owners[key] = o
	}
	o.users++
	return o, nil
}

func (l *Locker) exit(o *owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exitLocked(o)
}

func (l *Locker) exitLocked(o *owner) {
	o.users--
	if o.users == 0 {
		delete(l.owners, o.key)
	}
}

// deeper adds a level to the owner's grant, and reports whether the owner has
// one.
func (l *Locker) deeper(ctx context.Context, o *owner) (h *level, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.grant == nil {
		return nil, false, nil
	}
	h, err = o.grant.deeperLocked(ctx)
	return h, true, err
}

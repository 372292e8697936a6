package relock

import (
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/waitqueue"
)

// owner is one (key, owner) of a client, and its lease while it has one.
type owner struct {
	client *manager
	key    ownerOf
	turn   turn
	users  int    // calls under way; guarded by Client.mu
	lease  *lease // until its last level was unlocked; guarded by turn

	mu    sync.Mutex
	waits map[*waitqueue.Call]struct{} // calls of the owner that wait
}

// join has the call told when another one of the owner got the lock.
func (o *owner) join(w *waitqueue.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waits == nil {
		o.waits = map[*waitqueue.Call]struct{}{}
	}
	w.Again = make(chan struct{}, 1)
	o.waits[w] = struct{}{}
}

func (o *owner) part(w *waitqueue.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waits, w)
}

// wakeOthers makes the owner's other calls look again.
func (o *owner) wakeOthers(own *waitqueue.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for w := range o.waits {
		if w != own {
			w.Nudge()
		}
	}
}

// try makes one attempt of a call in the owner's turn: one more level of the
// hold that it has, else the first one, by first. Neither a hold nor an error:
// the owner has no hold, and first is nil.
func (o *owner) try(ctx context.Context, w *waitqueue.Call, first func(context.Context) (*level, error)) (*level, error) {
	if !o.turn.takeUntil(ctx) {
		return nil, driver.ErrAbandoned
	}
	defer o.turn.give()
	switch {
	case o.lease != nil:
		return o.lease.reenter(ctx, w)
	case first != nil:
		return first(ctx)
	}
	return nil, nil
}

// grant makes the owner's hold of what was granted to a call in its turn.
func (o *owner) grant(w *waitqueue.Call, g *grant) (*level, error) {
	return o.begin(w, newLease(o.client, g), g.sent)
}

// begin makes a lease the owner's, for a call. Another call that waits as the
// same owner goes one level deeper instead.
func (o *owner) begin(w *waitqueue.Call, l *lease, sent time.Time) (*level, error) {
	l.owner, l.turn = o, o.turn
	h, err := l.begin(w.Caller, sent, w.Settings)
	if err == nil {
		o.lease = l
		l.client.enter(o.key) // until the last level is dropped
		o.wakeOthers(w)
	}
	return h, err
}

type ownerOf struct {
	lock, id string
	family   lockspec.Family
}

func (l *lease) family() lockspec.Family {
	if l.owner == nil {
		return lockspec.PlainFamily
	}
	return l.owner.key.family
}

// enter returns the owner's entry, making it when there is none. Every enter
// has its exit.
func (m *manager) enter(key ownerOf) *owner {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.owners[key]
	if o == nil {
		o = &owner{client: m, key: key, turn: newTurn()}
		m.owners[key] = o
	}
	o.users++
	return o
}

func (m *manager) exit(o *owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.users--
	if o.users == 0 {
		delete(m.owners, o.key)
	}
}

// unlockNewest ends the owner's newest level that writes, or that does not.
func (m *manager) unlockNewest(key ownerOf, writes bool) error {
	o := m.enter(key)
	defer m.exit(o)
	o.turn.take()
	defer o.turn.give()
	if o.lease == nil {
		return errs.ErrNotHeld
	}
	h := o.lease.newest(writes)
	if h == nil {
		return errs.ErrNotHeld
	}
	return h.unlockInTurn(time.Now())
}

// depth returns how many levels the owner has. It waits for the owner's turn as
// long as ctx allows; 0 then.
func (m *manager) depth(ctx context.Context, key ownerOf) int {
	o := m.enter(key)
	defer m.exit(o)
	if !o.turn.takeUntil(ctx) {
		return 0
	}
	defer o.turn.give()
	if o.lease == nil || o.lease.check() != nil {
		return 0
	}
	o.lease.mu.Lock()
	defer o.lease.mu.Unlock()
	return o.lease.live
}

// held returns the newest hold of the client's key that ctx carries and that
// was not unlocked, of a lock of this kind.
func (m *manager) held(ctx context.Context, key string, of lockspec.Family) *level {
	for one := carried.By(ctx); one != nil; one = one.Next {
		h, ok := one.Hold.(*level)
		if !ok {
			continue // of another backend
		}
		l := h.lease
		if l.client == m && l.covers(key) && l.family() == of && !h.isUnlocked() {
			return h
		}
	}
	return nil
}

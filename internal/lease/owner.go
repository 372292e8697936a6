package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Owner is one pair of key and owner of a client, with its lease if it has one.
type Owner struct {
	client *Manager
	key    OwnerKey
	turn   chan struct{} // its mutex, see take
	users  int           // calls under way, and one for the lease; guarded by Manager.mu
	lease  *Lease        // until its last level is unlocked; guarded by turn

	mu    sync.Mutex
	waits map[*localwait.Call]struct{} // waiting calls of the owner
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

// Try makes one attempt of a call, with the owner mutex held. If the owner has
// a lease, the call adds a level to it. If not, it acquires the first level by
// first. Try returns neither a hold nor an error if the owner has no lease and
// first is nil.
func (o *Owner) Try(ctx context.Context, w *localwait.Call, first func(context.Context) (*Hold, error)) (*Hold, error) {
	if !o.takeUntil(ctx) {
		return nil, driver.ErrAbandoned
	}
	defer o.give()
	switch {
	case o.lease != nil:
		return o.lease.reenter(ctx, w)
	case first != nil:
		return first(ctx)
	}
	return nil, nil
}

// First makes one attempt for the first level of the owner, with the owner
// mutex held.
func (o *Owner) First(ctx context.Context, attempt func() (*Hold, error)) (*Hold, error) {
	if !o.takeUntil(ctx) {
		return nil, driver.ErrAbandoned
	}
	defer o.give()
	switch {
	case o.lease == nil:
		return attempt()
	case o.lease.Check() == nil:
		return nil, errs.Lost("the owner has the lock, by another hold")
	}
	return nil, fmt.Errorf("%w: owner: has a lost hold, which is not unlocked", errs.ErrInvalid)
}

// Grant returns the owner's hold of a grant; the owner mutex must be held.
func (o *Owner) Grant(w *localwait.Call, g *Grant) (*Hold, error) {
	return o.begin(w, newLease(o.client, g), g.Sent)
}

// begin makes a lease the owner's, for the call w. Other waiting calls of the
// owner are notified, and add a level instead.
func (o *Owner) begin(w *localwait.Call, l *Lease, sent time.Time) (*Hold, error) {
	l.owner = o
	h, err := l.begin(w.Caller, sent, w.Settings)
	if err == nil {
		o.lease = l
		l.client.Enter(o.key) // until the last level is removed
		o.wakeOthers(w)
	}
	return h, err
}

// OwnerKey identifies an owner of a client, for one lock.
type OwnerKey struct {
	Lock, ID string
	Family   lockspec.Family
}

// Enter returns the owner with this key, and creates it if there is none. Each
// Enter needs one Exit.
func (m *Manager) Enter(key OwnerKey) *Owner {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.owners[key]
	if o == nil {
		o = &Owner{client: m, key: key, turn: make(chan struct{}, 1)}
		m.owners[key] = o
	}
	o.users++
	return o
}

// Exit undoes one Enter.
func (m *Manager) Exit(o *Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exitLocked(o)
}

// exitLocked is Exit with mu held.
func (m *Manager) exitLocked(o *Owner) {
	o.users--
	if o.users == 0 {
		delete(m.owners, o.key)
	}
}

// UnlockNewest unlocks the owner's newest level that writes, or its newest
// level that does not.
func (m *Manager) UnlockNewest(key OwnerKey, writes bool) error {
	o := m.Enter(key)
	defer m.Exit(o)
	o.take()
	defer o.give()
	if o.lease == nil {
		return errs.ErrNotHeld
	}
	h := o.lease.newest(func(h *Hold) bool { return h.settings.Kind.Writes == writes })
	if h == nil {
		return errs.ErrNotHeld
	}
	return o.lease.unlockInTurn(h)
}

// Depth returns how many levels the owner has. It waits for the owner mutex,
// and returns 0 if ctx is cancelled first.
func (m *Manager) Depth(ctx context.Context, key OwnerKey) int {
	o := m.Enter(key)
	defer m.Exit(o)
	if !o.takeUntil(ctx) {
		return 0
	}
	defer o.give()
	if o.lease == nil || o.lease.Check() != nil {
		return 0
	}
	o.lease.Mu.Lock()
	defer o.lease.Mu.Unlock()
	return o.lease.levels.Live
}

// Held returns the newest hold of this client and key that ctx carries, or nil.
// The hold must be of this family, and not unlocked.
func (m *Manager) Held(ctx context.Context, key string, of lockspec.Family) *Hold {
	for one := carried.By(ctx); one != nil; one = one.Next {
		h, ok := one.Hold.(*Hold)
		if !ok {
			continue // of another backend
		}
		if h.grant.manager() == m && h.Covers(key) && h.Family() == of && !h.IsUnlocked() {
			return h
		}
	}
	return nil
}

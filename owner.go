package relock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/lockspec"
)

func withHold(ctx context.Context, h Hold) context.Context { return carried.WithHold(ctx, h) }

// HoldFromContext returns the newest hold of this name that ctx carries: the context given to the function of
// Do, one of [Hold.Context], or one made from them. That of a [MultiLock] has the names of all its keys.
func HoldFromContext(ctx context.Context, key string) (Hold, bool) {
	if ctx == nil {
		return nil, false
	}
	for c := carried.By(ctx); c != nil; c = c.Next {
		h, ok := c.Hold.(Hold)
		if !ok {
			continue
		}
		if h.Key() == key || covers(h, key) {
			return h, true
		}
	}
	return nil, false
}

// covers says whether a hold of several keys has this one.
func covers(hold Hold, key string) bool {
	h, ok := hold.(*level)
	return ok && h.lease.covers(key)
}

// held returns the newest hold of the client's key that ctx carries and that was not unlocked, of a lock of this
// kind.
func (c *Client) held(ctx context.Context, key string, of lockspec.Family) *level {
	for one := carried.By(ctx); one != nil; one = one.Next {
		h, ok := one.Hold.(*level)
		if !ok {
			continue // of another backend
		}
		l := h.lease
		if l.client == c && l.covers(key) && l.family() == of && !h.isUnlocked() {
			return h
		}
	}
	return nil
}

// ContextWithOwner names the owner of the reentrant and read/write locks that are called with the returned context, 1 to 256
// bytes: goroutines that share it share their holds. The same id on another [Client] is another owner.
//
// A hold that the context carries (see [HoldFromContext]) comes before it; it comes before [WithOwner] and
// the goroutine.
func ContextWithOwner(ctx context.Context, id string) context.Context {
	return carried.WithOwner(ctx, id)
}

// ownerID is who calls: the hold in ctx, the owner in ctx, the owner of the lock, or the goroutine.
func (l *handle) ownerID(ctx context.Context, of lockspec.Family) (string, error) {
	if h := l.client.held(ctx, l.key, of); h != nil {
		return h.lease.owner.key.id, nil
	}
	if id, ok := carried.Owner(ctx); ok {
		if id == "" || len(id) > lockspec.MaxOwner {
			return "", fmt.Errorf("%w: ContextWithOwner: an id has 1 to %d bytes", ErrInvalid, lockspec.MaxOwner)
		}
		return l.client.identity.Named(id), nil
	}
	if l.settings.Owner != "" {
		return l.client.identity.Named(l.settings.Owner), nil
	}
	return l.client.identity.Goroutine(), nil
}

// unlockNewest ends the level that pick chooses of those that the caller's owner has.
func (l *handle) unlockNewest(ctx context.Context, of lockspec.Family, pick func(*lease) *level) error {
	id, err := l.ownerID(ctx, of)
	if err != nil {
		return err
	}
	o := l.client.enter(ownerOf{l.key, id, of})
	defer l.client.exit(o)
	o.turn.take()
	defer o.turn.give()
	if o.lease == nil {
		return ErrNotHeld
	}
	h := pick(o.lease)
	if h == nil {
		return ErrNotHeld
	}
	return h.unlockInTurn(time.Now())
}

// owner is one (key, owner) of a client, and its lease while it has one.
type owner struct {
	key   ownerOf
	turn  turn
	users int    // calls under way; guarded by Client.mu
	lease *lease // until its last level was unlocked; guarded by turn

	mu    sync.Mutex
	waits map[*wait]struct{} // calls of the owner that wait
}

// join has the call told when another one of the owner got the lock.
func (o *owner) join(w *wait) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waits == nil {
		o.waits = map[*wait]struct{}{}
	}
	w.Again = make(chan struct{}, 1)
	o.waits[w] = struct{}{}
}

func (o *owner) part(w *wait) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waits, w)
}

// wakeOthers makes the owner's other calls look again.
func (o *owner) wakeOthers(own *wait) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for w := range o.waits {
		if w != own {
			w.nudge()
		}
	}
}

// beginFor makes a lease the owner's. Whoever waits as the same owner goes one level deeper instead.
func (w *wait) beginFor(o *owner, l *lease, sent time.Time) (*level, error) {
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

// enter returns the owner's entry, making it when there is none. Every enter has its exit.
func (c *Client) enter(key ownerOf) *owner {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.owners[key]
	if o == nil {
		o = &owner{key: key, turn: newTurn()}
		c.owners[key] = o
	}
	o.users++
	return o
}

func (c *Client) exit(o *owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.users--
	if o.users == 0 {
		delete(c.owners, o.key)
	}
}

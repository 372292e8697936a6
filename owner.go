package relock

import (
	"context"
	"fmt"
	"sync"
)

// carried is the chain of holds that a context carries, newest first.
type carried struct {
	hold *level
	next *carried
}

type carriedKey struct{}

func withHold(ctx context.Context, h *level) context.Context {
	return context.WithValue(ctx, carriedKey{}, &carried{hold: h, next: carriedBy(ctx)})
}

func carriedBy(ctx context.Context) *carried {
	c, _ := ctx.Value(carriedKey{}).(*carried)
	return c
}

// HoldFromContext returns the newest hold of this name that ctx carries: the context given to the function of
// Do, one of [Hold.Context], or one made from them.
func HoldFromContext(ctx context.Context, key string) (Hold, bool) {
	if ctx == nil {
		return nil, false
	}
	for c := carriedBy(ctx); c != nil; c = c.next {
		if c.hold.Key() == key {
			return c.hold, true
		}
	}
	return nil, false
}

// held returns the newest hold of the client's key that ctx carries and that was not unlocked, of a reentrant
// lock or of a plain one.
func (c *Client) held(ctx context.Context, key string, reentrant bool) *level {
	for h := carriedBy(ctx); h != nil; h = h.next {
		l := h.hold.lease
		if l.client == c && l.key == key && (l.owner != nil) == reentrant && !h.hold.isUnlocked() {
			return h.hold
		}
	}
	return nil
}

type ownerKey struct{}

// ContextWithOwner names the owner of the reentrant locks that are called with the returned context, 1 to 256
// bytes: goroutines that share it share their holds. The same id on another [Client] is another owner.
//
// A hold that the context carries (see [HoldFromContext]) comes before it; it comes before [WithOwner] and
// the goroutine.
func ContextWithOwner(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, ownerKey{}, id)
}

// ownerID is who calls: the hold in ctx, the owner in ctx, the owner of the lock, or the goroutine.
func (l *ReentrantLock) ownerID(ctx context.Context) (string, error) {
	if h := l.client.held(ctx, l.key, true); h != nil {
		return h.lease.owner.key.id, nil
	}
	if id, ok := ctx.Value(ownerKey{}).(string); ok {
		if id == "" || len(id) > maxOwner {
			return "", fmt.Errorf("%w: ContextWithOwner: an id has 1 to %d bytes", ErrInvalid, maxOwner)
		}
		return l.client.identity.named(id), nil
	}
	if l.settings.owner != "" {
		return l.client.identity.named(l.settings.owner), nil
	}
	return l.client.identity.goroutine(), nil
}

// owner is one (key, owner) of a client, and its lease while it has one.
type owner struct {
	key   ownerOf
	turn  turn
	users int    // calls under way; guarded by Client.mu
	lease *lease // until its last level was unlocked; guarded by turn

	mu    sync.Mutex
	waits map[*queued]struct{} // calls of the owner that wait
}

func (o *owner) join(w *queued) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waits == nil {
		o.waits = map[*queued]struct{}{}
	}
	o.waits[w] = struct{}{}
}

func (o *owner) part(w *queued) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waits, w)
}

// wakeOthers makes the owner's other calls look again.
func (o *owner) wakeOthers(own *queued) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for w := range o.waits {
		if w != own {
			w.nudge()
		}
	}
}

type ownerOf struct{ lock, id string }

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

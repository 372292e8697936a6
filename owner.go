package relock

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/lockspec"
)

// HoldFromContext returns the newest hold of this name that ctx carries: the context given to the function of
// Do, one of [Hold.Context], or one made from them. That of a [MultiLock] has the names of all its keys.
func HoldFromContext(ctx context.Context, key string) (Hold, bool) {
	if ctx == nil {
		return nil, false
	}
	for c := carried.By(ctx); c != nil; c = c.Next {
		switch h := c.Hold.(type) {
		case *level:
			if h.Key() == key || h.lease.covers(key) {
				return hold{h}, true
			}
		case Hold: // of another backend
			if h.Key() == key {
				return h, true
			}
		}
	}
	return nil, false
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

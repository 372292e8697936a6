package relock

import (
	"context"
	"fmt"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/lease"
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
		case *lease.Hold:
			if h.Key() == key || h.Covers(key) {
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

// owner is the caller as the owner of locks of this name.
func (l *handle) owner(ctx context.Context) (lease.OwnerKey, error) {
	family := l.settings.Kind.Family
	id, err := l.ownerID(ctx, family)
	return lease.OwnerKey{Lock: l.key, ID: id, Family: family}, err
}

// ownerID is who calls: the hold in ctx, the owner in ctx, the owner of the
// lock, or the goroutine.
func (l *handle) ownerID(ctx context.Context, of lockspec.Family) (string, error) {
	if h := l.client.engine.Held(ctx, l.key, of); h != nil {
		return h.Owner(), nil
	}
	if id, ok := carried.Owner(ctx); ok {
		if id == "" || len(id) > lockspec.MaxOwner {
			return "", fmt.Errorf("%w: ContextWithOwner: an id has 1 to %d bytes", ErrInvalid, lockspec.MaxOwner)
		}
		return l.client.engine.Identity.Named(id), nil
	}
	if l.settings.Owner != "" {
		return l.client.engine.Identity.Named(l.settings.Owner), nil
	}
	return l.client.engine.Identity.Goroutine(), nil
}

// unlockNewest ends the newest level of the caller's owner that writes, or that
// does not, as the kind of the lock.
func (l *handle) unlockNewest(ctx context.Context) error {
	o, err := l.owner(ctx)
	if err != nil {
		return err
	}
	return l.client.engine.UnlockNewest(o, l.settings.Kind.Writes)
}

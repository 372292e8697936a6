package relock

import (
	"context"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/lease"
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

// Package carried defines what contexts carry for locks of every backend:
// holds, and the id of an owner.
package carried

import "context"

// Hold is the hold of a lock of any backend.
type Hold interface {
	// Key returns the name of the lock.
	Key() string
}

// Holds is a chain of holds, newest first.
type Holds struct {
	Hold Hold
	Next *Holds
}

type holdsKey struct{}

// WithHold returns a context that carries one more hold.
func WithHold(ctx context.Context, hold Hold) context.Context {
	return context.WithValue(ctx, holdsKey{}, &Holds{Hold: hold, Next: By(ctx)})
}

// By returns the holds that ctx carries, or nil.
func By(ctx context.Context) *Holds {
	h, _ := ctx.Value(holdsKey{}).(*Holds)
	return h
}

type ownerKey struct{}

// WithOwner returns a context that carries the owner's id.
func WithOwner(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, ownerKey{}, id)
}

// Owner returns the owner's id that ctx carries, and reports whether there is
// one.
func Owner(ctx context.Context) (id string, ok bool) {
	id, ok = ctx.Value(ownerKey{}).(string)
	return id, ok
}

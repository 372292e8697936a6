package acquire

import (
	"context"

	"github.com/relock-go/relock/internal/lease"
)

// Owned is what the kinds share whose holds belong to an owner.
type Owned struct{ *Target }

// NewOwned returns it for the lock.
func NewOwned(t *Target) Owned { return Owned{t} }

// Run makes a call of the caller's owner, which w names. It acquires the lock
// with compete.
func (l Owned) Run(ctx context.Context, block bool, compete Compete) (h *lease.Hold, waited bool, err error) {
	if err := l.Ready(ctx); err != nil {
		return nil, false, err
	}
	caller, err := l.Owner(ctx)
	if err != nil {
		return nil, false, err
	}
	w := NewWait(ctx, l.Target, block)
	w.Owner, w.OwnerID = l.Manager.Owners.Enter(caller), caller.ID
	defer w.Owner.Exit()
	return w.Run(compete)
}

// Release ends the newest level of the caller's owner. For a read/write lock,
// it ends the newest level in the mode of the kind.
func (l Owned) Release(ctx context.Context) error {
	o, err := l.Owner(ctx)
	if err != nil {
		return err
	}
	return l.Manager.Owners.UnlockNewest(o, l.Settings.Kind.Writes)
}

// Unlock ends a level.
func (l Owned) Unlock(h *lease.Hold) error { return h.Unlock() }

package acquire

import (
	"context"

	"github.com/relock-go/relock/internal/lease"
)

// owned is what the kinds share whose holds belong to an owner.
type owned struct{ *Target }

// acquireAs acquires a lock for an owner with this ID.
type acquireAs func(w *wait, o *lease.Owner, id string) (*lease.Hold, error)

// attempt runs a call of the caller's owner.
func (l owned) attempt(ctx context.Context, block bool, acquire acquireAs) (h *lease.Hold, waited bool, err error) {
	if err := l.ready(ctx); err != nil {
		return nil, false, err
	}
	caller, err := l.Owner(ctx)
	if err != nil {
		return nil, false, err
	}
	w := newWait(ctx, l.Manager.Life, l.Target, block)
	defer w.cancel()
	o := l.Manager.Enter(caller)
	defer l.Manager.Exit(o)
	w.owner, w.OwnerID = o, caller.ID
	defer w.stopHint()
	h, err = acquire(w, o, caller.ID)
	return h, w.waited(), w.explain(err)
}

// Release ends the newest level of the caller's owner. For a read/write lock,
// it ends the newest level in the mode of the kind.
func (l owned) Release(ctx context.Context) error {
	o, err := l.Owner(ctx)
	if err != nil {
		return err
	}
	return l.Manager.UnlockNewest(o, l.Settings.Kind.Writes)
}

// Unlock ends a level.
func (l owned) Unlock(h *lease.Hold) error { return h.Unlock() }

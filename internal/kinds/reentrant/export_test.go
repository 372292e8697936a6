package reentrant

import (
	"context"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lease"
)

// TakeAs is Take for a call that waits locally. It calls begun with a function
// that changes the owner of the call while it waits.
func (l Lock) TakeAs(
	ctx context.Context, begun func(actAs func(o *lease.Owner, id string)),
) (h *lease.Hold, err error) {
	h, _, err = l.Run(ctx, true, func(w *acquire.Wait) (*lease.Hold, error) {
		a := newAttempt(l.Target, w)
		begun(func(o *lease.Owner, id string) { w.Owner, w.OwnerID, a.protocol.Owner = o, id, id })
		return a.waitLocally()
	})
	return h, err
}

package acquire

import (
	"context"

	"github.com/relock-go/relock/internal/lease"
)

// TakeKeeping is Take for a call that was handed so many keys in vain that it
// keeps some now.
func (l *Multi) TakeKeeping(ctx context.Context) (*lease.Hold, error) {
	w := newWait(ctx, l.Manager.Life, l.Target, true)
	defer w.cancel()
	defer w.end()
	a := &multiAttempt{lock: l, wait: w, misses: maxMisses}
	defer a.end()
	return w.acquire(a.try)
}

// TakeAs is Take for a call that waits locally. It calls begun with a function
// that changes the owner of the call while it waits.
func (l Reentrant) TakeAs(
	ctx context.Context, begun func(actAs func(o *lease.Owner, id string)),
) (h *lease.Hold, err error) {
	h, _, err = l.attempt(ctx, true, func(w *wait, o *lease.Owner, id string) (*lease.Hold, error) {
		a := &reentrantAttempt{Target: l.Target, wait: w, owner: o}
		a.protocol = reentrantProtocol{redisKey: l.RedisKey(), owner: id}
		begun(func(o *lease.Owner, id string) { a.owner, w.owner, w.OwnerID, a.protocol.owner = o, o, id, id })
		return a.waitLocally()
	})
	return h, err
}

// InTheWay returns the hold in ctx that a call would wait for, or nil.
func (l *Quorum) InTheWay(ctx context.Context) *lease.Hold { return l.inTheWay(ctx) }

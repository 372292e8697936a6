package relock

import (
	"context"

	"github.com/relock-go/relock/internal/driver"
)

// accept makes the hold that was transferred the owner's. Neither a hold nor an
// error: the owner has one already.
func (a *reentrantAttempt) accept(ctx context.Context, t *transfer) (*level, error) {
	l := a.inherit(t)
	if !a.owner.turn.takeUntil(ctx) {
		l.giveUp(t)
		return nil, driver.ErrAbandoned
	}
	defer a.owner.turn.give()
	if a.owner.lease != nil {
		l.giveUp(t)
		return nil, nil
	}
	h, err := a.owner.begin(&a.wait.Call, l, t.sent)
	if l.isAdopted() { // else Close sees to it
		t.arrived()
	}
	if err != nil {
		l.takeSpared().LeaveWith(err)
	}
	return h, err
}

// refuse gives back what was transferred to a call that has no use for it.
func (a *reentrantAttempt) refuse(t *transfer) { a.inherit(t).giveUp(t) }

// inherit makes the lease of a transfer.
func (a *reentrantAttempt) inherit(t *transfer) *lease {
	p := a.protocol
	p.hold = t.hold
	return t.lease(a.lock.client.manager, a.lock.key, p, &a.lock.settings)
}

func (a *reentrantAttempt) ownerID() string { return a.owner.key.id }

package semaphore

import (
	"context"
	"errors"
	"fmt"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
)

// Lock acquires permits of a semaphore.
type Lock struct {
	*acquire.Target
}

// New returns how permits are acquired.
func New(t *acquire.Target) *Lock { return &Lock{t} }

// Take acquires one permit. The object does not keep the hold.
func (l *Lock) Take(ctx context.Context, block, _ bool) (h *lease.Hold, waited bool, err error) {
	if err := l.Ready(ctx); err != nil {
		return nil, false, err
	}
	return acquire.NewWait(ctx, l.Target, block).Run(l.compete)
}

func (l *Lock) compete(w *acquire.Wait) (*lease.Hold, error) {
	line := l.Manager.Queue.Enter(l.Key, l.RedisKey())
	defer line.Exit()
	return w.QueueUp(line, l.body, func(ctx context.Context) (*lease.Hold, error) { return l.try(ctx, w) })
}

// try makes one attempt in the order of the queue.
func (l *Lock) try(ctx context.Context, w *acquire.Wait) (*lease.Hold, error) {
	g, err := w.Queued.Attempt(ctx)
	if errors.Is(err, errs.ErrLockAcquiredByOthers) {
		return nil, fmt.Errorf("%w: none of %d permits is free", err, l.Settings.Permits)
	}
	if err != nil {
		return nil, err
	}
	p := protocol{l.RedisKey(), g.Hold}
	return l.Manager.Grant(w.Caller, lease.Queued(&g, l.Key, p, &l.Settings))
}

// body returns what the semaphore stores for a hold. It has no owner.
func (l *Lock) body(string) (owner, info string) {
	return l.Manager.Identity.ID, l.Manager.Identity.RWInfo(l.Settings.Label)
}

// Release finds nothing to end: no object keeps a hold.
func (l *Lock) Release(context.Context) error { return errs.ErrNotHeld }

// Unlock ends a hold.
func (l *Lock) Unlock(h *lease.Hold) error { return h.Unlock() }

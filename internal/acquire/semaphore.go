package acquire

import (
	"context"
	"errors"
	"fmt"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Semaphore acquires permits of a semaphore.
type Semaphore struct {
	*Target
}

// NewSemaphore returns how permits are acquired.
func NewSemaphore(t *Target) *Semaphore { return &Semaphore{t} }

// Take acquires one permit. The object does not keep the hold.
func (l *Semaphore) Take(ctx context.Context, block, _ bool) (h *lease.Hold, waited bool, err error) {
	if err := l.ready(ctx); err != nil {
		return nil, false, err
	}
	w := newWait(ctx, l.Manager.Life, l.Target, block)
	defer w.cancel()
	defer w.stopHint()
	line := l.Manager.Queue.Enter(l.Key, l.RedisKey())
	defer line.Exit()
	w.queued = waitqueue.NewEntry(line, &l.Settings, !block, l.body)
	defer w.queued.Leave()
	h, err = w.acquire(func(ctx context.Context) (*lease.Hold, error) { return l.try(ctx, w) })
	return h, w.waited(), w.explain(err)
}

// try makes one attempt in the order of the queue.
func (l *Semaphore) try(ctx context.Context, w *wait) (*lease.Hold, error) {
	sent, err := w.queued.Attempt(ctx)
	if errors.Is(err, errs.ErrLockAcquiredByOthers) {
		return nil, fmt.Errorf("%w: none of %d permits is free", err, l.Settings.Permits)
	}
	if err != nil {
		return nil, err
	}
	g := w.queued.Granted()
	p := semaphoreProtocol{l.RedisKey(), g.Hold}
	return l.Manager.Grant(w.Caller, lease.Queued(&g, l.Key, p, sent, &l.Settings))
}

// body returns what the semaphore stores for a hold. It has no owner.
func (l *Semaphore) body(string) (owner, info string) {
	return l.Manager.Identity.ID, l.Manager.Identity.RWInfo(l.Settings.Label)
}

// Release finds nothing to end: no object keeps a hold.
func (l *Semaphore) Release(context.Context) error { return errs.ErrNotHeld }

// Unlock ends a hold.
func (l *Semaphore) Unlock(h *lease.Hold) error { return h.Unlock() }

package relock

import (
	"context"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/waitqueue"
)

// acquire is the call of one who reads or writes, by the settings.
func (l *RWLock) acquire(ctx context.Context, s *lockspec.Spec, block bool) (*lease.Hold, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	caller, err := l.owner(ctx)
	if err != nil {
		return nil, err
	}
	w := newWait(ctx, l.client.engine.Life, s, block)
	defer w.cancel()
	o := l.client.engine.Enter(caller)
	defer l.client.engine.Exit(o)
	line := l.client.engine.Queue.Enter(l.key, l.redisKey())
	defer line.Exit()
	a := &rwAttempt{lock: l, wait: w, owner: o, id: caller.ID}
	a.queued = waitqueue.NewEntry(line, s, !block, a.body)
	w.queued = a.queued
	o.Join(&w.Call)
	defer o.Leave(&w.Call)
	defer a.queued.Leave()
	return w.acquire(a.try)
}

// rwAttempt is the wait of one call for a read/write lock.
type rwAttempt struct {
	lock   *RWLock
	wait   *wait
	owner  *lease.Owner
	id     string // of the owner
	queued *waitqueue.Entry
}

// try makes one attempt in the owner's turn: the first level, or one more of the lease that the owner has.
func (a *rwAttempt) try(ctx context.Context) (*lease.Hold, error) {
	return a.owner.Try(ctx, &a.wait.Call, a.first)
}

// body is what the lock stores under a hold.
func (a *rwAttempt) body(string) (owner, info string) {
	return a.id, a.lock.client.engine.Identity.RWInfo(a.wait.Settings.Label)
}

// first asks for a hold, in the queue's order.
func (a *rwAttempt) first(ctx context.Context) (*lease.Hold, error) {
	sent, err := a.queued.Attempt(ctx)
	if err != nil {
		return nil, err
	}
	g := a.queued.Granted()
	p := rwProtocol{redisKey: a.lock.redisKey(), hold: g.Hold}
	return a.owner.Grant(&a.wait.Call, lease.Queued(&g, a.lock.key, p, sent, a.wait.Settings))
}

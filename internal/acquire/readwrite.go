package acquire

import (
	"context"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/waitqueue"
)

// ReadWrite acquires a read/write lock: to read or to write, by the kind in its
// settings.
type ReadWrite struct{ owned }

// NewReadWrite returns how the lock is acquired.
func NewReadWrite(t *Target) ReadWrite { return ReadWrite{owned{t}} }

// Take acquires the lock for the caller's owner, or goes one level deeper.
func (l ReadWrite) Take(ctx context.Context, block, _ bool) (h *lease.Hold, waited bool, err error) {
	return l.attempt(ctx, block, func(w *wait, o *lease.Owner, id string) (*lease.Hold, error) {
		line := l.Manager.Queue.Enter(l.Key, l.RedisKey())
		defer line.Exit()
		a := &rwAttempt{Target: l.Target, wait: w, owner: o, id: id}
		a.queued = waitqueue.NewEntry(line, &l.Settings, !block, a.body)
		w.queued = a.queued
		o.Join(&w.Call)
		defer o.Leave(&w.Call)
		defer a.queued.Leave()
		return w.acquire(a.try)
	})
}

// rwAttempt is one call for a read/write lock.
type rwAttempt struct {
	*Target
	wait   *wait
	owner  *lease.Owner
	id     string // of the owner
	queued *waitqueue.Entry
}

// try makes one attempt under the owner mutex: for the first level, or for one
// more of the lease that the owner has.
func (a *rwAttempt) try(ctx context.Context) (*lease.Hold, error) {
	return a.owner.Try(ctx, &a.wait.Call, a.first)
}

// body returns what the lock stores for a hold.
func (a *rwAttempt) body(string) (owner, info string) {
	return a.id, a.Manager.Identity.RWInfo(a.wait.Settings.Label)
}

// first requests a hold in the order of the queue.
func (a *rwAttempt) first(ctx context.Context) (*lease.Hold, error) {
	sent, err := a.queued.Attempt(ctx)
	if err != nil {
		return nil, err
	}
	g := a.queued.Granted()
	p := rwProtocol{redisKey: a.RedisKey(), hold: g.Hold}
	return a.owner.Grant(&a.wait.Call, lease.Queued(&g, a.Key, p, sent, a.wait.Settings))
}

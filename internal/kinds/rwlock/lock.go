package rwlock

import (
	"context"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lease"
)

// Lock acquires a read/write lock: to read or to write, by the kind in its
// settings.
type Lock struct{ acquire.Owned }

// New returns how the lock is acquired.
func New(t *acquire.Target) Lock { return Lock{acquire.NewOwned(t)} }

// Take acquires the lock for the caller's owner, or goes one level deeper.
func (l Lock) Take(ctx context.Context, block, _ bool) (h *lease.Hold, waited bool, err error) {
	return l.Run(ctx, block, func(w *acquire.Wait) (*lease.Hold, error) {
		line := l.Manager.Queue.Enter(l.Key, l.RedisKey())
		defer line.Exit()
		a := &attempt{Target: l.Target, wait: w}
		w.Owner.Join(&w.Call)
		defer w.Owner.Leave(&w.Call)
		return w.QueueUp(line, a.body, a.try)
	})
}

// attempt is one call for a read/write lock.
type attempt struct {
	*acquire.Target
	wait *acquire.Wait
}

// try makes one attempt under the owner mutex: for the first level, or for one
// more of the lease that the owner has.
func (a *attempt) try(ctx context.Context) (*lease.Hold, error) {
	return a.wait.Owner.Try(ctx, &a.wait.Call, a.first)
}

// body returns what the lock stores for a hold.
func (a *attempt) body(string) (owner, info string) {
	return a.wait.OwnerID, a.Manager.Identity.RWInfo(a.wait.Settings.Label)
}

// first requests a hold in the order of the queue.
func (a *attempt) first(ctx context.Context) (*lease.Hold, error) {
	g, err := a.wait.Queued.Attempt(ctx)
	if err != nil {
		return nil, err
	}
	p := protocol{redisKey: a.RedisKey(), hold: g.Hold}
	return a.wait.Owner.Grant(&a.wait.Call, lease.Queued(&g, a.Key, p, a.wait.Settings))
}

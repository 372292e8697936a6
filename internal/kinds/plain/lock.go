package plain

import (
	"context"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
)

// Lock acquires a plain lock.
type Lock struct{ acquire.Shared }

// New returns a Lock for the lock.
func New(t *acquire.Target) Lock { return Lock{acquire.NewShared(t)} }

// Take acquires the lock. If lasting is true, the hold belongs to the object
// until its release.
func (l *Lock) Take(ctx context.Context, block, lasting bool) (h *lease.Hold, waited bool, err error) {
	if err := l.Ready(ctx); err != nil {
		return nil, false, err
	}
	h, outer, err := l.nest(ctx)
	if h != nil || err != nil {
		return h, false, err
	}
	if block {
		if err := l.CheckSelfWait(outer); err != nil {
			return nil, false, err
		}
	}
	return l.Run(acquire.NewWait(ctx, l.Target, block), lasting, l.compete)
}

// nest adds a level to the hold in ctx, if its kind and options allow that.
// Otherwise it returns that hold, or nil. Another goroutine may unlock the
// innermost hold meanwhile; then the next one counts.
func (l *Lock) nest(ctx context.Context) (h, outer *lease.Hold, err error) {
	for {
		outer = l.Manager.Held(ctx, l.Key, lockspec.PlainFamily)
		if outer == nil || !l.Settings.Kind.Nests {
			return nil, outer, nil
		}
		h, err = lease.Nest(ctx, outer, &l.Settings)
		if h != nil || err != nil || !outer.IsUnlocked() {
			return h, outer, err
		}
	}
}

func (l *Lock) compete(w *acquire.Wait) (*lease.Hold, error) {
	a := &attempt{Target: l.Target, wait: w}
	defer a.finish()
	if !w.Block && !l.Settings.Fair {
		return w.Acquire(a.Try)
	}
	line := l.Manager.Queue.EnterUsed(a.RedisKey())
	if line == nil {
		if a.canFastPath() {
			if h, done, err := a.fastPath(); done {
				return h, err
			}
		}
		line = l.Manager.Queue.Enter(l.Key, a.RedisKey())
	}
	defer line.Exit()
	if !l.Settings.Fair {
		return w.WaitForValid(line, a)
	}
	return w.QueueUp(line, a.body, a.Try)
}

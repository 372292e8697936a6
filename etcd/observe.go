package etcdlock

import (
	"context"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/holds"
)

// kind is the kind of the locks in the reports to observers.
const kind = "etcd"

// observed is acquire with reports to the observer. Its errors are wrapped.
func (l *Locker) observed(ctx context.Context, key string, block bool) (*level, error) {
	if l == nil || l.server == nil || l.config.observer == nil {
		h, _, err := l.acquire(ctx, key, block)
		return h, wrap("lock", key, err)
	}
	o, seen := l.config.observer, ctx
	if seen == nil {
		seen = context.Background() // the call fails, but a hook may ask for a value
	}
	start := relock.LockStart{Key: key, Kind: kind, Block: block}
	if o.LockStart != nil {
		o.LockStart(seen, start)
	}
	began := time.Now()
	h, waited, err := l.acquire(ctx, key, block)
	err = wrap("lock", key, err)
	if o.LockDone != nil {
		o.LockDone(seen, relock.LockDone{LockStart: start, Start: began, End: time.Now(), Err: err, Waited: waited})
	}
	if err == nil {
		h.report.Announce()
	}
	return h, err
}

// holdDone returns the function that reports the end of a hold to the observer.
// It returns nil if there is no hook for it.
func (s *server) holdDone() func(context.Context, holds.End) {
	if s.config.observer == nil || s.config.observer.HoldDone == nil {
		return nil
	}
	return func(ctx context.Context, e holds.End) {
		s.config.observer.HoldDone(ctx, relock.HoldDone{Key: e.Key, Kind: e.Kind, Start: e.Start, End: e.End, Err: wrap(e.Op, e.Key, e.Err)})
	}
}

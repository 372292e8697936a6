package etcdlock

import (
	"context"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/holds"
)

// kind is the kind of the locks in the reports to observers.
const kind = "etcd"

// holdDone returns the function that reports the end of a hold to the observer.
// It returns nil if there is no hook for it.
func (s *server) holdDone() func(context.Context, holds.End) {
	if s.config.observer == nil || s.config.observer.HoldDone == nil {
		return nil
	}
	return func(ctx context.Context, e holds.End) {
		done := relock.HoldDone{Key: e.Key, Kind: e.Kind, Start: e.Start, End: e.End, Err: wrap(e.Op, e.Key, e.Err)}
		s.config.observer.HoldDone(ctx, done)
	}
}

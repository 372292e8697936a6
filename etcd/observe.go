package etcdlock

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/holds"
)

// kind is what observers are told that the locks are.
const kind = "etcd"

// observed is acquire, of which observers are told. Its errors are wrapped.
func (l *Locker) observed(ctx context.Context, key string, block bool) (*level, error) {
	if l == nil || l.config.observer == nil {
		h, err := l.acquire(ctx, key, block)
		return h, wrap("lock", key, err)
	}
	o, seen := l.config.observer, ctx
	if seen == nil {
		seen = context.Background() // the call is refused; a hook that asks for a value is no mistake
	}
	start := relock.LockStart{Key: key, Kind: kind, Block: block}
	if o.LockStart != nil {
		o.LockStart(seen, start)
	}
	began := time.Now()
	h, err := l.acquire(ctx, key, block)
	err = wrap("lock", key, err)
	if o.LockDone != nil {
		o.LockDone(seen, relock.LockDone{LockStart: start, Start: began, Err: err})
	}
	if err == nil {
		h.report.Announce()
	}
	return h, err
}

// holdDone returns what reports the end of a hold to the observer; nil if none
// is interested.
func (l *Locker) holdDone() func(context.Context, holds.End) {
	if l.config.observer == nil || l.config.observer.HoldDone == nil {
		return nil
	}
	return func(ctx context.Context, e holds.End) {
		l.config.observer.HoldDone(ctx, relock.HoldDone{Key: e.Key, Kind: e.Kind, Start: e.Start, End: e.End, Err: wrap(e.Op, e.Key, e.Err)})
	}
}

// tellRenewal tells of an attempt to renew the lease. One that the end of the session has cut tells why that ended.
func (s *session) tellRenewal(sent time.Time, err error) {
	o := s.locker.config.observer
	if o == nil || o.RenewDone == nil {
		return
	}
	if over := s.check(); err != nil && over != nil && !errors.Is(err, over) {
		err = over
	}
	o.RenewDone(relock.RenewDone{Sent: sent, Err: err})
}

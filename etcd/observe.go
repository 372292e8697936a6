package etcdlock

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
)

// kind is what observers are told that the locks are.
const kind = "etcd"

// told is what observers are to be told of one level. It is guarded by Locker.mu, but from does not change any more once
// it is set.
type told struct {
	from  time.Time // when the call that acquired it ended; zero until LockDone was called
	ended time.Time // when it was lost, if that was before
}

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
	err, ended := wrap("lock", key, err), time.Now()
	if o.LockDone != nil {
		o.LockDone(seen, relock.LockDone{LockStart: start, Start: began, Err: err})
	}
	if err == nil {
		h.tellFrom(ended)
	}
	return h, err
}

// tellFrom notes that LockDone was called. A loss that came before is told now.
func (h *level) tellFrom(ended time.Time) {
	l := h.grant.locker
	l.mu.Lock()
	h.told.from = ended
	over, end := h.over, h.told.ended
	l.mu.Unlock()
	if end.Before(ended) {
		end = ended // no hold is shorter than nothing
	}
	if over != nil { // lost, since nobody has had it to unlock it
		h.tellEnd(end, wrap("hold", h.grant.name, over))
	}
}

// tellLossLocked tells of a level that was lost, on a goroutine, since the mutex is held. Of one that ends by its Unlock,
// that tells; of one whose call has not ended yet, the call.
func (h *level) tellLossLocked(why error) {
	if h.told == nil || why == relock.ErrNotHeld { //nolint:errorlint // our own reason
		return
	}
	now := time.Now()
	if h.told.from.IsZero() {
		h.told.ended = now
		return
	}
	h.grant.locker.tasks.Start(func() { h.tellEnd(now, wrap("hold", h.grant.name, why)) }) // Close waits for it
}

// tellEnd is called once for each level.
func (h *level) tellEnd(end time.Time, err error) {
	if h.told == nil {
		return
	}
	if f := h.grant.locker.config.observer.HoldDone; f != nil {
		f(h.values, relock.HoldDone{Key: h.grant.name, Kind: kind, Start: h.told.from, End: end, Err: err})
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

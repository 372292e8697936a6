package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/lease"
)

// call acquires the lock and notifies the observer.
func (b *base) call(ctx context.Context, block, lasting bool) (*lease.Hold, error) {
	o, start := b.observer(), LockStart{b.target.Key, b.target.Settings.KindName(), block}
	began, seen := time.Now(), orEmpty(ctx)
	if o.LockStart != nil {
		o.LockStart(seen, start)
	}
	got, err := b.take(ctx, block, lasting)
	err = wrap("lock", b.target.Key, err)
	if o.LockDone != nil {
		o.LockDone(seen, LockDone{start, began, err})
	}
	if err == nil {
		got.Announce()
	}
	return got, err
}

// observer is that of the client; it has no hooks when the lock was not made by
// its constructor.
func (b *base) observer() *Observer {
	if b.client == nil || b.client.config == nil {
		return &Observer{}
	}
	return &b.client.config.observer
}

// orEmpty is a context that hooks may use, whatever the caller gave.
func orEmpty(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// hooks returns what the engine calls. The errors that users get say what was
// done, and to which key.
func (o *Observer) hooks() (h lease.Hooks) {
	if done := o.HoldDone; done != nil {
		h.HoldDone = func(ctx context.Context, e lease.HoldEnd) {
			done(ctx, HoldDone{Key: e.Key, Kind: e.Kind, Start: e.Start, End: e.End, Err: wrap(e.Op, e.Key, e.Err)})
		}
	}
	if done := o.RenewDone; done != nil {
		h.RenewDone = func(key string, sent time.Time, err error) { done(RenewDone{key, sent, wrap("renew", key, err)}) }
	}
	return h
}

package relock

import (
	"context"
	"sync"
	"time"
)

// call acquires the lock and notifies the observer.
func (b *base) call(ctx context.Context, block, lasting bool) (*level, error) {
	o, start := b.observer(), LockStart{b.key, b.settings.KindName(), block}
	began, seen := time.Now(), orEmpty(ctx)
	if o.LockStart != nil {
		o.LockStart(seen, start)
	}
	got, err := b.take(ctx, block, lasting)
	err = wrap("lock", b.key, err)
	if o.LockDone != nil {
		o.LockDone(seen, LockDone{start, began, err})
	}
	if err == nil {
		got.seen.reveal()
	}
	return got, err
}

// observer is that of the client; it has no hooks when the lock was not made by its constructor.
func (h *handle) observer() *Observer {
	if h.client == nil || h.client.config == nil {
		return &Observer{}
	}
	return &h.client.config.observer
}

// orEmpty is a context that hooks may use, whatever the caller gave.
func orEmpty(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// sighting is what an observer is to be told of a hold: its end, once, and not before its grant.
type sighting struct {
	tell func(context.Context, HoldDone)
	ctx  context.Context

	mu    sync.Mutex
	done  HoldDone
	known bool // the grant was told
	over  bool // the hold has ended, and what there is to be said of that is known
}

// sighting is nil when nobody wants to know of a hold that is granted now.
func (c *Client) sighting(ctx context.Context, key string, kind string) *sighting {
	tell := c.config.observer.HoldDone
	if tell == nil {
		return nil
	}
	return &sighting{tell: tell, ctx: context.WithoutCancel(ctx), done: HoldDone{Key: key, Kind: kind, Start: time.Now()}}
}

// ended notes that the hold ends now.
func (s *sighting) ended() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done.End.IsZero() {
		s.done.End = time.Now()
	}
}

// report says how the hold has ended: the first one that does.
func (s *sighting) report(err error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	first := !s.over
	if first {
		s.over, s.done.Err = true, err
	}
	known := s.known
	s.mu.Unlock()
	if first && known {
		s.tell(s.ctx, s.done)
	}
}

// reveal says that the grant was told: the end may be now, or is if it has come.
func (s *sighting) reveal() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.known = true
	over := s.over
	s.mu.Unlock()
	if over {
		s.tell(s.ctx, s.done)
	}
}

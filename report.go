package relock

import (
	"context"
	"sync"
	"time"
)

// holdEnd is how a hold has ended.
type holdEnd struct {
	key, kind  string
	start, end time.Time
	op         string // what has found the end: "hold" or "unlock"
	err        error
}

// sighting is what an observer is to be told of a hold: its end, once, and not
// before its grant.
type sighting struct {
	tell func(context.Context, holdEnd)
	ctx  context.Context

	mu    sync.Mutex
	done  holdEnd
	known bool // the grant was told
	over  bool // the hold has ended, and what there is to be said of that is known
}

// sighting is nil when nobody wants to know of a hold that is granted now.
func (m *manager) sighting(ctx context.Context, key string, kind string) *sighting {
	tell := m.hooks.holdDone
	if tell == nil {
		return nil
	}
	return &sighting{tell: tell, ctx: context.WithoutCancel(ctx), done: holdEnd{key: key, kind: kind, start: time.Now()}}
}

// ended notes that the hold ends now.
func (s *sighting) ended() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done.end.IsZero() {
		s.done.end = time.Now()
	}
}

// report says how the hold has ended: the first one that does.
func (s *sighting) report(op string, err error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	first := !s.over
	if first {
		s.over, s.done.op, s.done.err = true, op, err
	}
	known := s.known
	s.mu.Unlock()
	if first && known {
		s.tell(s.ctx, s.done)
	}
}

// reveal says that the grant was told: the end may be now, or is if it has
// come.
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

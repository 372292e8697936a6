package lease

import (
	"context"
	"sync"
	"time"
)

// HoldEnd is how a hold has ended.
type HoldEnd struct {
	Key, Kind  string
	Start, End time.Time
	Op         string // what has found the end: "hold" or "unlock"
	Err        error
}

// holdReport is what an observer is to be told of a hold: its end, once, and not
// before its grant.
type holdReport struct {
	tell func(context.Context, HoldEnd)
	ctx  context.Context

	mu    sync.Mutex
	end   HoldEnd
	known bool // the grant was told
	over  bool // the hold has ended, and what there is to be said of that is known
}

// newReport is nil when nobody wants to know of a hold that is granted now.
func (m *Manager) newReport(ctx context.Context, key string, kind string) *holdReport {
	tell := m.Hooks.HoldDone
	if tell == nil {
		return nil
	}
	return &holdReport{tell: tell, ctx: context.WithoutCancel(ctx), end: HoldEnd{Key: key, Kind: kind, Start: time.Now()}}
}

// ended notes that the hold ends now.
func (s *holdReport) ended() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end.End.IsZero() {
		s.end.End = time.Now()
	}
}

// done says how the hold has ended: the first one that does.
func (s *holdReport) done(op string, err error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	first := !s.over
	if first {
		s.over, s.end.Op, s.end.Err = true, op, err
	}
	known := s.known
	s.mu.Unlock()
	if first && known {
		s.tell(s.ctx, s.end)
	}
}

// announce says that the grant was told: the end may be now, or is if it has
// come.
func (s *holdReport) announce() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.known = true
	over := s.over
	s.mu.Unlock()
	if over {
		s.tell(s.ctx, s.end)
	}
}

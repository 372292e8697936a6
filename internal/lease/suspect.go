package lease

import "sync"

// Suspect is the turn of a task that may end the process: one in a client has
// it at a time, so that it ends no other one with it.
type Suspect struct {
	mu   sync.Mutex
	over func() bool // of the one that has it; nil before the first
}

// Free reports whether nobody has the turn.
func (s *Suspect) Free() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over == nil || s.over()
}

// Take takes the turn, and reports whether that was free. over reports whether
// its owner needs it no longer.
func (s *Suspect) Take(over func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil && !s.over() {
		return false
	}
	s.over = over
	return true
}

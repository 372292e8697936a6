package lease

import (
	"slices"

	"github.com/relock-go/relock/internal/holds"
)

// stack is the levels of a lease: the holds that share it. The mutex of the
// lease guards it.
type stack struct {
	holds.Levels[*Hold]

	// What nearly every lease needs is part of it: each object costs time.
	first Hold
	buf   [1]*Hold
}

// next returns a hold for one more level.
func (s *stack) next() *Hold {
	if s.first.grant != nil { // it was granted before
		return &Hold{}
	}
	s.All = s.buf[:0]
	return &s.first
}

// writes returns how many live levels of a read/write lock write.
func (s *stack) writes() (n int) {
	for _, h := range s.All {
		if h.settings.Kind.Writes && h.ends.Err() == nil {
			n++
		}
	}
	return n
}

// newest returns the newest level for which ok reports true, or nil.
func (s *stack) newest(ok func(*Hold) bool) *Hold {
	for _, h := range slices.Backward(s.All) {
		if ok(h) {
			return h
		}
	}
	return nil
}

// unlimited returns the oldest live level without a maximum hold, or nil.
func (s *stack) unlimited() *Hold {
	for _, h := range s.All {
		if h.isUnlimited() {
			return h
		}
	}
	return nil
}

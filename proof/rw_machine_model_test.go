package proof

import (
	"slices"

	"github.com/relock-go/relock"
)

// rwMachineOwner is an owner of the lock, on one client.
type rwMachineOwner struct {
	client int
	name   string
}

var rwMachineOwners = []rwMachineOwner{{0, "ann"}, {0, "bob"}, {1, "ann"}}

// rwModelHold is what an owner has, from its first level to its last.
type rwModelHold struct {
	owner  rwMachineOwner
	levels []*rwModelLevel // not yet unlocked, oldest first
	there  bool            // the server has it
	ends   span            // there
	lost   bool            // as its client knows
	id     string
	seq    int64
	copies []rwModelCopy
}

type rwModelLevel struct {
	hold     *rwModelHold
	write    bool
	handle   relock.Hold
	over     error // nil while it is held
	unlocked bool
}

// rwModelCopy is a request of the past.
type rwModelCopy struct {
	script string
	seq    int64
	args   []any
}

func (h *rwModelHold) count(write bool) (n int) {
	for _, l := range h.levels {
		if l.write == write {
			n++
		}
	}
	return n
}

// lose marks all nested holds as lost.
func (h *rwModelHold) lose() {
	h.lost = true
	for _, l := range h.levels {
		l.over = relock.ErrLockLost
	}
}

// drop takes a level off.
func (h *rwModelHold) drop(l *rwModelLevel) {
	l.unlocked = true
	if l.over == nil {
		l.over = relock.ErrNotHeld
	}
	h.levels = slices.DeleteFunc(h.levels, func(other *rwModelLevel) bool { return other == l })
}

func (h *rwModelHold) newest(write bool) *rwModelLevel {
	if h == nil {
		return nil
	}
	for _, l := range slices.Backward(h.levels) {
		if l.write == write {
			return l
		}
	}
	return nil
}

package etcdlock

// slot is what the key of a fair claim is named by: a number that no other claim of the Locker for the same lock has. etcd
// keeps every key that was deleted until it is compacted, and passes all of them when a folder is read, which each claim
// does: a folder stays small, however many holds there were, when their keys are made of few names.
type slot struct {
	locker *Locker
	name   string // of the lock
	number int
	series uint64

	left bool // guarded by Locker.mu
}

// numbers are those of one lock, while a claim has one of them.
type numbers struct {
	used int   // how many there are
	free []int // of them, given back
}

// takeSlotLocked takes a number that is free, or the next one.
func (l *Locker) takeSlotLocked(name string) *slot {
	n := l.slots[name]
	if n == nil {
		n = &numbers{}
		l.slots[name] = n
	}
	s := &slot{locker: l, name: name, series: l.series}
	if last := len(n.free) - 1; last >= 0 {
		s.number, n.free = n.free[last], n.free[:last]
		return s
	}
	s.number = n.used
	n.used++
	return s
}

// leaveLocked gives the number to the next claim. Unless it is certain that the key is gone, and that no request makes it
// again, claims get keys of a new series from here on. A slot is left once, no matter how often it is said. An unfair claim
// has none.
func (s *slot) leaveLocked(certain bool) {
	if s == nil || s.left {
		return
	}
	s.left = true
	l := s.locker
	if !certain {
		l.series++
	}
	n := l.slots[s.name]
	n.free = append(n.free, s.number)
	if len(n.free) == n.used {
		delete(l.slots, s.name)
	}
}

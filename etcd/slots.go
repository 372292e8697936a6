package etcdlock

// slot names the key of a fair claim. It has a number that no other claim of
// the Locker for the same lock has. etcd keeps every deleted key until it is
// compacted. Each claim reads the folder, and such a read passes all deleted
// keys. If the keys have few names, the folder stays small, however many holds
// there were.
type slot struct {
	locker *Locker
	name   string // of the lock
	number int
	series uint64

	left bool // guarded by Locker.mu
}

// numbers has the slot numbers of one lock. It exists while a claim has one of
// them.
type numbers struct {
	used int   // how many there are
	free []int // those that no claim has
}

// takeSlotLocked takes a free number, or the next one.
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

// leaveLocked frees the number for the next claim. certain means that the key
// is gone and that no request makes it again. If that is not certain, later
// claims get keys of a new series. Only the first call has an effect. s is nil
// for an unfair claim.
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

package etcdlock

import "sync"

// slot names the key of a fair claim. It has a number that no other claim of
// the Locker for the same lock has. etcd keeps every deleted key until it is
// compacted. Each claim reads the folder, and such a read passes all deleted
// keys. If the keys have few names, the folder stays small, however many holds
// there were.
type slot struct {
	slots  *slots
	name   string // of the lock
	number int
	series uint64
	left   bool // guarded by slots.mu
}

// slots has the slots of the fair claims of one Locker.
type slots struct {
	mu     sync.Mutex // is taken last
	locks  map[string]*numbers
	series uint64 // of the next keys
}

// numbers has the slot numbers of one lock. It exists while a claim has one of
// them.
type numbers struct {
	used int   // how many there are
	free []int // those that no claim has
}

// take takes a free number, or the next one.
func (all *slots) take(name string) *slot {
	all.mu.Lock()
	defer all.mu.Unlock()
	n := all.locks[name]
	if n == nil {
		n = &numbers{}
		all.locks[name] = n
	}
	s := &slot{slots: all, name: name, series: all.series}
	if last := len(n.free) - 1; last >= 0 {
		s.number, n.free = n.free[last], n.free[:last]
		return s
	}
	s.number = n.used
	n.used++
	return s
}

// leave frees the number for the next claim. certain means that the key
// is gone and that no request makes it again. If that is not certain, later
// claims get keys of a new series. Only the first call has an effect. s is nil
// for an unfair claim.
func (s *slot) leave(certain bool) {
	if s == nil {
		return
	}
	all := s.slots
	all.mu.Lock()
	defer all.mu.Unlock()
	if s.left {
		return
	}
	s.left = true
	if !certain {
		all.series++
	}
	n := all.locks[s.name]
	n.free = append(n.free, s.number)
	if len(n.free) == n.used {
		delete(all.locks, s.name)
	}
}

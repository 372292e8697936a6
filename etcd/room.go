package etcdlock

// maxKeys is how many keys a lease may have before new claims use another one.
// A server that authenticates users checks the rights to all keys of a lease
// for each key that is put under it, one request after another. 128 keys double
// the 0.2 ms of a Put, and 1,024 keys make it five times as long.
const maxKeys = 128

// roomyLocked returns a session with room for one more claim, or nil. It
// returns the same one until that is full, so the others become empty in time.
func (l *Locker) roomyLocked() *session {
	if s := l.session; s != nil && s.hasRoomLocked() {
		return s
	}
	var most *session
	for s := range l.leases {
		if s.hasRoomLocked() && (most == nil || s.keysLocked() < most.keysLocked()) {
			most = s
		}
	}
	if most != nil {
		l.session = most
	}
	return most
}

// hasRoomLocked reports whether the session takes one more claim.
func (s *session) hasRoomLocked() bool {
	return !s.closing && s.keysLocked() < maxKeys && s.checkLocked() == nil
}

// keysLocked returns how many keys the lease has, or may have.
func (s *session) keysLocked() int { return len(s.grants) + s.users + len(s.cancelled) }

// endIfSpare ends a session without grants and other users, if claims have
// another one. It is called after a renewal. So a Locker whose holds fill a
// session repeatedly does not need a new lease each time.
func (s *session) endIfSpare() {
	l := s.locker
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != s && l.session != nil && l.session.hasRoomLocked() && len(s.grants)+s.users == 0 {
		s.closing = true
		s.retireLocked()
	}
}

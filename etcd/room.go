package etcdlock

import "time"

// maxKeys is how many keys a lease may have before new claims use another one.
// A server that authenticates users checks the rights to all keys of a lease
// for each key that is put under it, one request after another. 128 keys double
// the 0.2 ms of a Put, and 1,024 keys make it five times as long.
const maxKeys = 128

// roomyLocked returns a session with room for one more claim, or nil. It
// returns the same one until that is full, so the others become empty in time.
func (all *sessions) roomyLocked() *session {
	if s := all.current; s != nil && s.hasRoomLocked() {
		return s
	}
	var most *session
	for s := range all.leases {
		if s.hasRoomLocked() && (most == nil || s.keysLocked() < most.keysLocked()) {
			most = s
		}
	}
	if most != nil {
		all.current = most
	}
	return most
}

// hasRoomLocked reports whether the session takes one more claim.
func (s *session) hasRoomLocked() bool {
	return !s.closing && s.keysLocked() < maxKeys && s.checkLocked() == nil
}

// keysLocked returns how many keys the lease has, or may have.
func (s *session) keysLocked() int { return len(s.grants) + s.users + len(s.cancelled) }

// noteCancelled registers the key of a cancelled claim. A lease that they have
// filled takes no more claims: the server may be overloaded, and each renewal
// lists all keys. The lease is revoked after its last hold and claim, which
// deletes the keys.
func (s *session) noteCancelled(key string) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	s.cancelled = append(s.cancelled, cancelled{key, time.Now()})
	if s.keysLocked() >= maxKeys {
		s.closing = true
		s.retireLocked()
	}
}

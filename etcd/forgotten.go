package etcdlock

import "time"

// oldAfter is after how many leases a hold is reported. It is renewed for ever
// if its Unlock was forgotten.
const oldAfter = 100

// reportOld logs, once for each, which holds are old by now.
func (s *session) reportOld() {
	for _, g := range s.old() {
		s.locker.logger.Warn("relock: lock held for very long, an Unlock may be missing",
			"key", g.name, "kind", kind, "held", time.Since(g.began).Round(time.Second))
	}
}

// old returns the grants that have become old.
func (s *session) old() (all []*grant) {
	s.locker.mu.Lock()
	defer s.locker.mu.Unlock()
	for g := range s.grants {
		if !g.old && time.Since(g.began) >= oldAfter*s.ttl {
			g.old = true
			all = append(all, g)
		}
	}
	return all
}

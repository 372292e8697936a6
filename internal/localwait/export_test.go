package localwait

// Count returns how many waiters the line of a lock has.
func (a *Waiters[G]) Count(redisKey string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byKey[redisKey])
}

// FirstIsParked reports whether a hand-off may take the entry of the first
// waiter for a lock.
func (a *Waiters[G]) FirstIsParked(redisKey string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.byKey[redisKey]
	return len(all) > 0 && all[0].parked.IsParked()
}

package localwait

// Count returns how many waiters the line of a lock has.
func (a *Waiters[G]) Count(redisKey string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byKey[redisKey])
}

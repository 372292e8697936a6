package relocktest

import "sync"

// Busy makes others hold the lock, such as another process, until release is
// called. A hold of this Locker is lost: the others have taken the lock.
// Waiters go on waiting. If Busy is called more than once, the lock is held
// until each release was called. release may be called more than once.
func (l *Locker) Busy(key string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.lockLocked(key)
	if k.holder != nil {
		k.holder.loseLocked()
	}
	k.others++
	var once sync.Once
	return func() { once.Do(k.release) }
}

// release undoes one Busy.
func (k *lock) release() {
	k.locker.mu.Lock()
	defer k.locker.mu.Unlock()
	k.others--
	k.serveLocked()
}

// Lose makes the holder lose the lock, as if the server had forgotten it. The
// holder's contexts are cancelled before Lose returns, and the next waiter gets
// the lock. Lose reports whether a call of this Locker held it.
func (l *Locker) Lose(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.locks[key]
	if k == nil || k.holder == nil || k.holder.checkedLocked() {
		return false
	}
	k.holder.loseLocked()
	k.serveLocked()
	return true
}

// Waiting returns the number of calls that wait for the lock.
func (l *Locker) Waiting(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.locks[key]; k != nil {
		return len(k.waiters)
	}
	return 0
}

package etcdlock

import (
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/suspend"
)

// lookLocked finds all leases lost when the machine was suspended: the clock that beliefs go by has missed that time. All of
// them are marked before the mutex is given back, so that nobody is told otherwise afterwards.
func (l *Locker) lookLocked() {
	if !l.slept.Fresh(time.Now()) {
		l.slept.Ask(l.suspendedLocked)
	}
}

// suspendedLocked marks all leases lost.
func (l *Locker) suspendedLocked() {
	live := false
	for s := range l.leases {
		live = live || s.over == nil
		s.loseLocked(relock.ErrLockLost)
	}
	if live {
		l.tasks.Start(func() { l.logger.Warn("relock: the machine was suspended, all holds are lost") })
	}
}

// look is lookLocked for who is about to send a request that begins a belief: an earlier sleep does not count.
func (l *Locker) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookLocked()
}

// sleptSinceLocked says whether the machine has slept since then.
func (l *Locker) sleptSinceLocked(then time.Time) bool {
	l.lookLocked()
	return l.slept.Since(then)
}

// startVigilLocked looks for a sleep now and then while there are leases, so that holds end that nobody asks.
func (l *Locker) startVigilLocked() {
	if l.vigil == nil {
		l.vigil = time.AfterFunc(suspend.Pause, l.keepVigil)
	}
}

func (l *Locker) keepVigil() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() != nil || len(l.leases) == 0 {
		l.vigil = nil
		return
	}
	l.slept.Ask(l.suspendedLocked)
	l.vigil.Reset(suspend.Pause)
}

package etcdlock

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/suspend"
)

// checkSuspendLocked marks all leases lost if the machine was suspended. The
// clock that validity is measured by has missed that time. All leases are
// marked before the mutex is unlocked, so that nobody finds one valid
// afterwards.
func (l *Locker) checkSuspendLocked() {
	if !l.suspension.Fresh(time.Now()) {
		l.suspension.Ask(l.suspendedLocked)
	}
}

// suspendedLocked marks all leases lost.
func (l *Locker) suspendedLocked() {
	live := false
	for s := range l.leases {
		live = live || s.over == nil
		s.loseLocked(errs.Suspended)
	}
	if live {
		l.tasks.Start(func() { l.logger.Warn("relock: the machine was suspended, all holds are lost") })
	}
}

// checkSuspend is lookLocked for a caller that is about to send a request from
// which validity counts. So a suspend before the request does not count.
func (l *Locker) checkSuspend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkSuspendLocked()
}

// sleptSinceLocked reports whether a suspend was noticed after then.
func (l *Locker) sleptSinceLocked(then time.Time) bool {
	l.checkSuspendLocked()
	return l.suspension.Since(then)
}

// startMonitorLocked checks for a suspend at intervals while there are leases.
// So a hold also ends if nobody asks about it.
func (l *Locker) startMonitorLocked() {
	if l.suspendTimer == nil {
		l.suspendTimer = time.AfterFunc(suspend.Pause, l.monitorSuspend)
	}
}

func (l *Locker) monitorSuspend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() != nil || len(l.leases) == 0 {
		l.suspendTimer = nil
		return
	}
	l.suspension.Ask(l.suspendedLocked)
	l.suspendTimer.Reset(suspend.Pause)
}

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
func (all *sessions) checkSuspendLocked() {
	if !all.suspension.Fresh(time.Now()) {
		all.suspension.Ask(all.suspendedLocked)
	}
}

// suspendedLocked marks all leases lost.
func (all *sessions) suspendedLocked() {
	live := false
	for s := range all.leases {
		live = live || s.over == nil
		s.loseLocked(errs.Suspended)
	}
	if live {
		all.tasks.Start(func() { all.logger.Warn("relock: the machine was suspended, all holds are lost") })
	}
}

// monitorSuspend checks for a suspend at intervals while there are leases. So a
// hold also ends if nobody asks about it.
func (all *sessions) monitorSuspend() {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.life.Err() != nil || len(all.leases) == 0 {
		all.suspendTimer = nil
		return
	}
	all.suspension.Ask(all.suspendedLocked)
	all.suspendTimer.Reset(suspend.Pause)
}

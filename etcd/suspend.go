package etcdlock

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// checkSuspendLocked marks all leases lost if the machine was suspended. The
// clock that validity is measured by has missed that time. All leases are
// marked before the mutex is unlocked, so that nobody finds one valid
// afterwards.
func (all *sessions) checkSuspendLocked() { all.follow(all.monitor.Check(time.Now())) }

// follow runs what follows a suspend, on its own goroutine: the mutex is held.
func (all *sessions) follow(follow func()) {
	if follow != nil {
		all.tasks.Start(follow)
	}
}

// suspendedLocked marks all leases lost. What follows, each lease has started.
func (all *sessions) suspendedLocked() (follow func()) {
	for s := range all.leases {
		if s.over == nil {
			follow = func() {}
		}
		s.loseLocked(errs.Suspended)
	}
	return follow
}

// monitorSuspend checks for a suspend at intervals. So a hold also ends if
// nobody asks about it.
func (all *sessions) monitorSuspend() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.follow(all.monitor.CheckNow())
}

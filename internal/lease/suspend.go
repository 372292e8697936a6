package lease

import (
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/suspend"
)

// suspendMonitor ends all holds of the client when the machine was suspended,
// because others may hold the locks by then.
type suspendMonitor struct {
	client *Manager
	once   sync.Once // starts run
	// Its mutex is taken after the owner mutex, and before all others except
	// that of Tasks.
	watch *suspend.Watch
}

func newSuspendMonitor(m *Manager, all func() time.Duration, split func(now time.Time) (wall, awake time.Duration)) *suspendMonitor {
	return &suspendMonitor{client: m, watch: suspend.NewWatch(all, split)}
}

// check ends all holds if the machine was suspended before now, which the
// caller has just read. Each call of a lock checks several times, so a check
// must cost almost nothing.
func (v *suspendMonitor) check(now time.Time) {
	if !v.watch.Fresh(now) {
		v.checkNow()
	}
}

// CheckSuspended ends all holds of the client if the machine was suspended
// before now.
func (m *Manager) CheckSuspended(now time.Time) { m.monitor.check(now) }

// checkNow is check, but always checks with the kernel. Other calls wait until
// all holds are marked lost. They do not wait for the follow-up work, which may
// call the user's logger.
func (v *suspendMonitor) checkNow() {
	var follows []func()
	v.watch.Ask(func() { follows = v.markAll() })
	if len(follows) == 0 {
		return
	}
	v.client.Logger.Warn("relock: the machine was suspended, all holds are lost")
	for _, follow := range follows {
		follow()
	}
}

// checkSuspended checks for a suspend on behalf of the lease and of its
// members. Each client of a RedLock ends its own members.
func (l *Lease) checkSuspended(now time.Time) {
	l.client.monitor.check(now)
	if l.group == nil || l.group.keys != nil {
		return
	}
	for _, one := range l.group.joined() {
		one.hold.lease.client.monitor.check(now)
	}
}

// markAll marks all holds lost, and returns the follow-up work.
func (v *suspendMonitor) markAll() []func() {
	return endAll(v.client.allLeases(), func(l *Lease) func() { return l.markLost(errs.Suspended) })
}

// suspendedSince reports whether a suspend was noticed after then, when a
// request was sent. The sender of a request must check before it sends. A
// suspend counts from when it was noticed. So one that ended before that check
// invalidates no grant.
func (v *suspendMonitor) suspendedSince(then, now time.Time) bool {
	v.check(now)
	return v.watch.Since(then)
}

// start starts the periodic check, with the first hold.
func (v *suspendMonitor) start() {
	v.once.Do(func() { v.client.Tasks.Start(v.run) }) // Start refuses only after Close
}

func (v *suspendMonitor) run() {
	ticker := time.NewTicker(suspend.Pause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			v.checkNow()
		case <-v.client.Life.Done():
			return
		}
	}
}

func (m *Manager) allLeases() []*Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*Lease, 0, len(m.leases))
	for _, l := range m.leases {
		for ; l != nil; l = l.next {
			all = append(all, l)
		}
	}
	return all
}

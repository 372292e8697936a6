package lease

import (
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/suspend"
)

// suspendMonitor notices that the machine has slept, and ends all holds of the client: others may have them.
type suspendMonitor struct {
	client *Manager
	once   sync.Once      // starts it
	watch  *suspend.Watch // its mutex is taken before all others, but not before that of tasks
}

func newSuspendMonitor(m *Manager, all func() time.Duration, split func(now time.Time) (wall, awake time.Duration)) *suspendMonitor {
	return &suspendMonitor{client: m, watch: suspend.NewWatch(all, split)}
}

// check ends all holds if the machine was suspended before now, which the caller
// has just read. Each call of a lock looks several times, so it must cost
// nearly nothing.
func (v *suspendMonitor) check(now time.Time) {
	if !v.watch.Fresh(now) {
		v.checkNow()
	}
}

// CheckSuspended ends all holds of the client if the machine was suspended before now.
func (m *Manager) CheckSuspended(now time.Time) { m.monitor.check(now) }

// checkNow is check that asks the kernel. Other calls wait until all holds are
// marked lost, but not for what follows: that may call the user's logger.
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

// checkSuspended notices a sleep, for all that the lease is made of: each client of a RedLock ends its own parts.
func (l *Lease) checkSuspended(now time.Time) {
	l.client.monitor.check(now)
	if l.group == nil || l.group.keys != nil {
		return
	}
	for _, one := range l.group.joined() {
		one.hold.lease.client.monitor.check(now)
	}
}

// markAll marks all holds lost, and returns what follows.
func (v *suspendMonitor) markAll() []func() {
	return endAll(v.client.allLeases(), func(l *Lease) func() { return l.markLost(errs.ErrLockLost) })
}

// suspendedSince says whether the machine has slept since then, when a request was sent. Who sends one looks before: a sleep counts from when it was
// noticed, and one that was over by then takes no grant away.
func (v *suspendMonitor) suspendedSince(then, now time.Time) bool {
	v.check(now)
	return v.watch.Since(then)
}

// start begins to look now and then, with the first hold.
func (v *suspendMonitor) start() {
	v.once.Do(func() { v.client.Tasks.Start(v.run) }) // refused for good by Close alone
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
	for l := range m.leases {
		all = append(all, l)
	}
	return all
}

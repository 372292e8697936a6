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
func (s *suspendMonitor) check(now time.Time) {
	if !s.watch.Fresh(now) {
		s.checkNow()
	}
}

// CheckSuspended ends all holds of the client if the machine was suspended
// before now.
func (m *Manager) CheckSuspended(now time.Time) { m.monitor.check(now) }

// checkNow is check, but always checks with the kernel. Other calls wait until
// all holds are marked lost. They do not wait for the follow-up work, which may
// call the user's logger.
func (s *suspendMonitor) checkNow() {
	var follows []func()
	s.watch.Ask(func() { follows = s.markAll() })
	if len(follows) == 0 {
		return
	}
	s.client.Logger.Warn("relock: the machine was suspended, all holds are lost")
	for _, follow := range follows {
		follow()
	}
}

// markAll marks all holds lost, and returns the follow-up work.
func (s *suspendMonitor) markAll() []func() {
	return endAll(s.client.all(), func(r *Renewal) func() { return r.markLost(errs.Suspended) })
}

// suspendedSince reports whether a suspend was noticed after then, when a
// request was sent. The sender of a request must check before it sends. A
// suspend counts from when it was noticed. So one that ended before that check
// invalidates no grant.
func (s *suspendMonitor) suspendedSince(then, now time.Time) bool {
	s.check(now)
	return s.watch.Since(then)
}

// start starts the periodic check, with the first hold.
func (s *suspendMonitor) start() {
	s.once.Do(func() { s.client.Tasks.Start(s.run) }) // Start refuses only after Close
}

func (s *suspendMonitor) run() {
	ticker := time.NewTicker(suspend.Pause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.checkNow()
		case <-s.client.Life.Done():
			return
		}
	}
}

package relock

import (
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/suspend"
)

// vigil notices that the machine has slept, and ends all holds of the client: others may have them.
type vigil struct {
	client *manager
	once   sync.Once      // starts it
	watch  *suspend.Watch // its mutex is taken before all others, but not before that of tasks
}

func newVigil(m *manager, all func() time.Duration, split func(now time.Time) (wall, awake time.Duration)) *vigil {
	return &vigil{client: m, watch: suspend.NewWatch(all, split)}
}

// look ends all holds if the machine was suspended before now, which the caller
// has just read. Each call of a lock looks several times, so it must cost
// nearly nothing.
func (v *vigil) look(now time.Time) {
	if !v.watch.Fresh(now) {
		v.ask()
	}
}

// look ends all holds of the client if the machine was suspended before now.
func (m *manager) look(now time.Time) { m.vigil.look(now) }

// ask is look that asks the kernel. Other calls wait until all holds are
// marked lost, but not for what follows: that may call the user's logger.
func (v *vigil) ask() {
	var follows []func()
	v.watch.Ask(func() { follows = v.markAll() })
	if len(follows) == 0 {
		return
	}
	v.client.logger.Warn("relock: the machine was suspended, all holds are lost")
	for _, follow := range follows {
		follow()
	}
}

// look notices a sleep, for all that the lease is made of: each client of a RedLock ends its own parts.
func (l *lease) look(now time.Time) {
	l.client.vigil.look(now)
	if l.parts == nil || l.parts.keys != nil {
		return
	}
	for _, one := range l.parts.there() {
		one.hold.lease.client.vigil.look(now)
	}
}

// markAll marks all holds lost, and returns what follows.
func (v *vigil) markAll() []func() {
	return endAll(v.client.allLeases(), func(l *lease) func() { return l.markLost(errs.ErrLockLost) })
}

// since says whether the machine has slept since then, when a request was sent. Who sends one looks before: a sleep counts from when it was
// noticed, and one that was over by then takes no grant away.
func (v *vigil) since(then, now time.Time) bool {
	v.look(now)
	return v.watch.Since(then)
}

// start begins to look now and then, with the first hold.
func (v *vigil) start() {
	v.once.Do(func() { v.client.tasks.Start(v.run) }) // refused for good by Close alone
}

func (v *vigil) run() {
	ticker := time.NewTicker(suspend.Pause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			v.ask()
		case <-v.client.life.Done():
			return
		}
	}
}

func (m *manager) allLeases() []*lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*lease, 0, len(m.leases))
	for l := range m.leases {
		all = append(all, l)
	}
	return all
}

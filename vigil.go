package relock

import (
	"sync"
	"time"

	"github.com/relock-go/relock/internal/suspend"
)

// vigil notices that the machine has slept, and ends all holds of the client: others may have them.
type vigil struct {
	client *Client
	once   sync.Once // starts it

	mu    sync.Mutex // taken before all others, but not before that of tasks
	watch *suspend.Watch
}

func newVigil(c *Client, all, awake func() time.Duration) *vigil {
	return &vigil{client: c, watch: suspend.NewWatch(all, awake)}
}

// look notices a sleep. Whoever looks meanwhile waits until all holds are marked as lost, not for what follows: that may call
// the user's logger.
func (v *vigil) look() {
	follows := v.notice()
	if len(follows) == 0 {
		return
	}
	v.client.logger.Warn("relock: the machine was suspended, all holds are lost")
	for _, follow := range follows {
		follow()
	}
}

// notice marks all holds as lost when the machine has slept, and returns what is to be done about that; nil when it has not.
func (v *vigil) notice() (follows []func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.watch.Slept() {
		return nil
	}
	return endAll(v.client.allLeases(), (*lease).markLost)
}

// look notices a sleep, for all that the lease is made of: each client of a RedLock ends its own parts.
func (l *lease) look() {
	l.client.vigil.look()
	if l.parts == nil || l.parts.keys != nil {
		return
	}
	for _, one := range l.parts.there() {
		one.hold.lease.client.vigil.look()
	}
}

// since says whether the machine has slept since then, when a request was sent. Who sends one looks before: a sleep counts from when it was
// noticed, and one that was over by then takes no grant away.
func (v *vigil) since(then time.Time) bool {
	v.look()
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.watch.Since(then)
}

// start begins to look now and then, with the first hold.
func (v *vigil) start() {
	v.once.Do(func() { v.client.tasks.start(v.run) }) // refused for good by Close alone
}

func (v *vigil) run() {
	ticker := time.NewTicker(suspend.Pause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			v.look()
		case <-v.client.life.Done():
			return
		}
	}
}

func (c *Client) allLeases() []*lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*lease, 0, len(c.leases))
	for l := range c.leases {
		all = append(all, l)
	}
	return all
}

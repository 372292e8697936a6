package relock

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/script"
)

// confirmation is nil for a lock that needs none.
func (s *lockSettings) confirmation() *driver.Ack {
	if s.replicas == 0 {
		return nil
	}
	return &driver.Ack{Replicas: s.replicas, Timeout: s.replicaTimeout}
}

// ask sends a script that takes or lengthens a lock, and waits for its replicas.
func (c *Client) ask(ctx context.Context, settings *lockSettings, s script.Call) (driver.Result, script.Indeterminate) {
	c.vigil.look(time.Now())
	return script.Run(ctx, c.driver, driver.ForLease(settings.lease), s, settings.confirmation())
}

// ask is that of a client, for another level of the lease or a longer one. It waits for the replicas of the hold, of which no level asks for more:
// belief moves for all levels.
func (l *lease) ask(ctx context.Context, settings *lockSettings, s script.Call) (driver.Result, script.Indeterminate) {
	return script.Run(ctx, l.client.driver, driver.ForLease(settings.lease), s, l.confirm)
}

// confirmed turns the answers of renewals that too few replicas have, or nobody knows how many, into errors.
func confirmed(c *driver.Ack, outcomes []driver.Result) {
	if c == nil {
		return
	}
	for i := range outcomes {
		switch o := &outcomes[i]; {
		case !script.IsOurs(o.Reply):
		case o.Unacked != nil:
			o.Err = o.Unacked
		case o.Acks < int64(c.Replicas):
			o.Err = driver.TooFewReplicas(o.Acks)
		}
	}
}

// renewer is the worker that renews the lease.
func (l *lease) renewer() *worker {
	if l.confirm != nil {
		return l.client.replicator(*l.confirm)
	}
	return l.client.watchdog
}

// replicator renews leases that wait for the same number of replicas as long. It waits too, and so others have another one:
// replicas that do not come would make it late.
func (c *Client) replicator(k driver.Ack) *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.replicators[k]
	if w == nil {
		w = newWorker(c.driver, c.tasks, c.life.Done())
		w.confirm = &k
		c.replicators[k] = w
	}
	return w
}

// allReplicators are those that there are.
func (c *Client) allReplicators() []*worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.replicators))
}

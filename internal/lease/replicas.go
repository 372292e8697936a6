package lease

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// Ask sends a script that takes or lengthens a lock, and waits for its replicas.
func (m *Manager) Ask(ctx context.Context, settings *lockspec.Spec, s script.Call) (driver.Result, script.Indeterminate) {
	m.CheckSuspended(time.Now())
	return script.Run(ctx, m.Driver, driver.ForLease(settings.Lease), s, settings.Ack())
}

// ask is that of a client, for another level of the lease or a longer one. It waits for the replicas of the hold, of which no level asks for more:
// belief moves for all levels.
func (l *Lease) ask(ctx context.Context, settings *lockspec.Spec, s script.Call) (driver.Result, script.Indeterminate) {
	return script.Run(ctx, l.client.Driver, driver.ForLease(settings.Lease), s, l.confirm)
}

// renewer is the worker that renews the lease.
func (l *Lease) renewer() *background.Worker {
	if l.confirm != nil {
		return l.client.replicator(*l.confirm)
	}
	return l.client.watchdog
}

// replicator renews leases that wait for the same number of replicas as long. It waits too, and so others have another one:
// replicas that do not come would make it late.
func (m *Manager) replicator(k driver.Ack) *background.Worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.replicators[k]
	if w == nil {
		w = background.NewWorker(m.Driver, m.Tasks, m.Life.Done())
		w.Ack = &k
		m.replicators[k] = w
	}
	return w
}

// allReplicators are those that there are.
func (m *Manager) allReplicators() []*background.Worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.replicators))
}

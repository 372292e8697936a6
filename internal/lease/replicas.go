package lease

import (
	"maps"
	"slices"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
)

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

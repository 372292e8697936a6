package lease

import (
	"maps"
	"slices"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
)

// replicator returns the worker that renews the leases with this number of
// replicas and this timeout. The worker itself waits for the replicas. Leases
// with other settings have other workers, because missing replicas would delay
// them.
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

// allReplicators returns the replicators that exist.
func (m *Manager) allReplicators() []*background.Worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.replicators))
}

package lease

import (
	"maps"
	"slices"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/redis/driver"
)

// replicator returns the workers that renew the leases with this number of
// replicas and this timeout. The workers themselves wait for the replicas.
// Leases with other settings have other workers, because missing replicas would
// delay them.
func (m *Manager) replicator(k driver.Ack) *background.Fleet {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.replicators[k]
	if f == nil {
		f = background.NewFleet(m.Life, m.Driver, m.Tasks)
		f.Ack = &k
		m.replicators[k] = f
	}
	return f
}

// allReplicators returns the replicators that exist.
func (m *Manager) allReplicators() []*background.Fleet {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.replicators))
}

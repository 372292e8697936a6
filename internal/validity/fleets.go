package validity

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
func (b *Books) replicator(k driver.Ack) *background.Fleet {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.replicators[k]
	if f == nil {
		f = background.NewFleet(b.life, b.driver, b.tasks)
		f.Ack = &k
		b.replicators[k] = f
	}
	return f
}

// fleets returns all workers that renew.
func (b *Books) fleets() []*background.Fleet {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(slices.Collect(maps.Values(b.replicators)), b.watchdog)
}

package validity

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/redis/driver"
)

// renewAhead is how much too early a grant may be renewed together with others.
// Many locks then cost a few large batches instead of many small ones.
const renewAhead = 10 * time.Millisecond

// fleets are the workers that renew the grants of a client. Leases that wait
// for replicas have a fleet for each number and timeout, because missing
// replicas would delay the others.
type fleets struct {
	client   Config
	watchdog *background.Fleet // of the grants that wait for no replicas

	mu          sync.Mutex
	replicators map[driver.Ack]*background.Fleet
}

func newFleets(c Config) *fleets {
	f := &fleets{client: c, replicators: map[driver.Ack]*background.Fleet{}}
	f.watchdog = f.newFleet()
	f.watchdog.Window = renewAhead
	return f
}

func (f *fleets) newFleet() *background.Fleet {
	return background.NewFleet(f.client.Life, f.client.Driver, f.client.Tasks)
}

// of returns the workers that renew the leases that wait for these replicas, or
// for none if ack is nil.
func (f *fleets) of(ack *driver.Ack) *background.Fleet {
	if ack == nil {
		return f.watchdog
	}
	return f.replicator(*ack)
}

// replicator returns the workers that renew the leases with this number of
// replicas and this timeout. The workers themselves wait for the replicas.
func (f *fleets) replicator(k driver.Ack) *background.Fleet {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.replicators[k]
	if r == nil {
		r = f.newFleet()
		r.Ack = &k
		f.replicators[k] = r
	}
	return r
}

func (f *fleets) all() []*background.Fleet {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(slices.Collect(maps.Values(f.replicators)), f.watchdog)
}

// retire has no worker use nodes that have gone.
func (f *fleets) retire(gone []driver.Node) {
	for _, fleet := range f.all() {
		fleet.Retire(gone)
	}
}

func (f *fleets) close() {
	for _, fleet := range f.all() {
		fleet.Close()
	}
}

package validity

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/suspend"
)

// Books have the grants of one client that have not ended, what ends them, and
// the workers that renew them.
type Books struct {
	driver    driver.Driver
	logger    *slog.Logger
	life      context.Context // cancelled when the client is closed
	tasks     *goroutines.Group
	renewDone func(context.Context, holds.End) // may be nil

	start    time.Time // the origin of the times that are counted
	watchdog *background.Fleet
	expiry   *expiryTimers
	monitor  *suspend.Monitor
	switched atomic.Int64 // when masters have changed last, counted from start
	warnings warnings
	Counts   Counts

	mu          sync.Mutex
	closed      bool
	grants      map[uint64]*Renewal              // the newest one of each place, linked with the others
	seed        maphash.Seed                     // of the places
	replicators map[driver.Ack]*background.Fleet // the workers of grants that wait for replicas
}

// Config is what books need of their client.
type Config struct {
	Driver    driver.Driver
	Logger    *slog.Logger
	Life      context.Context // cancelled when the client is closed
	Tasks     *goroutines.Group
	RenewDone func(context.Context, holds.End) // the observer of renewals; may be nil
	Clocks    suspend.Clocks
}

// New returns the books of one client. Their goroutines start with the first
// grant.
func New(c Config) *Books {
	b := &Books{
		driver: c.Driver, logger: c.Logger, life: c.Life, tasks: c.Tasks, renewDone: c.RenewDone,
		start: time.Now(), grants: map[uint64]*Renewal{}, seed: maphash.MakeSeed(),
		replicators: map[driver.Ack]*background.Fleet{}, watchdog: background.NewFleet(c.Life, c.Driver, c.Tasks),
	}
	b.watchdog.Window = renewAhead
	b.expiry = newExpiryTimers(b.start)
	b.monitor = suspend.NewMonitor(c.Clocks, c.Logger, b.suspended, func() { run(b.monitor.CheckNow()) })
	return b
}

// Counts are what became of renewals.
type Counts struct{ Renewals, RenewalErrors atomic.Int64 }

// renewed counts an attempt to renew a lease.
func (c *Counts) renewed(err error) {
	if err != nil {
		c.RenewalErrors.Add(1)
		return
	}
	c.Renewals.Add(1)
}

// At returns the time that was counted from the client's start.
func (b *Books) At(d time.Duration) time.Time { return b.start.Add(d) }

// Count returns t counted from the client's start, which takes less memory.
func (b *Books) Count(t time.Time) time.Duration { return t.Sub(b.start) }

// adopt enters a grant in the books, so that Close ends it. It fails if the
// client was closed.
func (b *Books) adopt(r *Renewal) error {
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.link(r)
	}
	b.mu.Unlock()
	if closed {
		b.logger.Warn("relock: closed before a lock was released", r.grant.About()...)
		return errs.ErrClosed
	}
	b.startMonitor()
	return nil
}

// forget takes a grant out of the books.
func (b *Books) forget(r *Renewal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unlink(r)
}

// All returns the grants in the books.
func (b *Books) All() []*Renewal {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*Renewal, 0, len(b.grants))
	for _, r := range b.grants {
		for ; r != nil; r = r.next {
			all = append(all, r)
		}
	}
	return all
}

// Seal refuses further grants, for the Close of the client.
func (b *Books) Seal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// Close stops the timer and the workers. All grants have ended.
func (b *Books) Close() {
	b.expiry.close()
	for _, f := range b.fleets() {
		f.Close()
	}
}

// NodesChanged is called when masters have changed. The nodes that have gone
// are not to be used any more. A new master may lack what the old one has
// answered, and one that was replaced for a while has lost it.
func (b *Books) NodesChanged(gone []driver.Node) {
	for _, f := range b.fleets() {
		f.Retire(gone)
	}
	b.recheckAll()
}

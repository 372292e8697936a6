package lease

import (
	"context"
	"hash/maphash"
	"log/slog"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/suspend"
	"github.com/relock-go/relock/internal/tasks"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Manager is the engine of one client: its leases, and the workers that renew
// and release them.
type Manager struct {
	Config

	watchdog *background.Fleet
	Retrier  *background.Retrier
	Queue    *waitqueue.Queue
	expiry   *expiryTimers
	monitor  *suspendMonitor
	Tasks    *tasks.Group
	Counts   Counts
	Outages  *outage.Log
	Suspect  Suspect  // of package queue
	Reading  sync.Map // what calls read for the texts of their errors, by key; see package acquire

	// OneByOne is set once the server has refused a request for keys of several
	// slots.
	OneByOne atomic.Bool

	Life context.Context // cancelled by Close
	end  context.CancelFunc

	switched atomic.Int64 // when masters have changed last, counted from the start

	mu     sync.Mutex
	closed bool
	grants map[uint64]*Renewal // the newest one of each place, linked with the others
	seed   maphash.Seed        // of the places
	owners map[OwnerKey]*Owner
	// awaited has the leases of which it was logged that a call waits for them.
	awaited map[*Renewal]struct{}

	replicators map[driver.Ack]*background.Fleet // the watchdogs of locks that wait for replicas

	renewalWarnings warnings
}

// Config is what a manager needs from its client.
type Config struct {
	Identity       lockspec.Identity
	Prefix         string // of lock names, in Redis
	Driver         driver.Driver
	Logger         *slog.Logger
	DialTimeout    time.Duration
	CommandTimeout time.Duration
	ReleaseOnClose bool
	Hooks          Hooks
	Limits         Limits
}

// Limits are those of a client that no option sets.
type Limits struct {
	Notice   time.Duration // how long a refused holder may take to read the reason
	HandOffs waitqueue.Budget
}

// DefaultLimits returns the limits of a client.
func DefaultLimits() Limits {
	return Limits{Notice: 200 * time.Millisecond, HandOffs: waitqueue.DefaultBudget()}
}

// Hooks are the functions of the observer that the manager calls, and the
// profile that it puts holds into. Each may be nil.
type Hooks struct {
	HoldDone  func(context.Context, holds.End)
	RenewDone func(context.Context, holds.End)
	Profile   *pprof.Profile
}

// report returns the report of a hold that was granted at start.
func (h *Hooks) report(ctx context.Context, key, kind string, start time.Time) *holds.Report {
	return holds.NewReport(ctx, h.HoldDone, h.Profile, key, kind, start)
}

// New returns the engine of one client. Its goroutines start with the first
// lock.
func New(c Config) *Manager {
	m := &Manager{
		Config: c, Tasks: &tasks.Group{},
		grants: map[uint64]*Renewal{}, seed: maphash.MakeSeed(), owners: map[OwnerKey]*Owner{}, awaited: map[*Renewal]struct{}{}, expiry: newExpiryTimers(),
		replicators: map[driver.Ack]*background.Fleet{},
	}
	m.Life, m.end = context.WithCancel(context.Background())
	m.watchdog = background.NewFleet(m.Life, c.Driver, m.Tasks)
	m.watchdog.Ahead = renewAhead
	m.Retrier = background.NewRetrier(background.NewFleet(m.Life, c.Driver, m.Tasks), c.Logger, c.DialTimeout)
	m.Queue = waitqueue.New(waitqueue.Host{
		Identity: c.Identity, Prefix: c.Prefix, Driver: c.Driver, Tasks: m.Tasks, Life: m.Life, Logger: c.Logger,
		Retrier: m.Retrier, Ask: m.Ask, Forced: m.Forced,
	})
	m.monitor = newSuspendMonitor(m, suspend.WithSleep, suspend.Split)
	m.Outages = outage.New(c.Logger, m.startUnlessClosed)
	return m
}

// startUnlessClosed runs f on a goroutine of the client, until Close begins.
func (m *Manager) startUnlessClosed(f func()) {
	if m.Life.Err() == nil {
		m.Tasks.Start(f)
	}
}

// Eval runs a script of a lock. It may send the script twice, which all of
// these scripts allow.
func (m *Manager) Eval(ctx context.Context, limit driver.Limits, s script.Call) (driver.Result, script.Indeterminate) {
	return script.Run(ctx, m.Driver, limit, s, nil)
}

// RedisKey returns the key in Redis of the lock with this name.
func (m *Manager) RedisKey(key string) string { return m.Prefix + "{" + key + "}" }

// adopt enters a grant in the books, so that Close ends it. It fails if the
// client was closed.
func (m *Manager) adopt(r *Renewal) error {
	m.mu.Lock()
	closed := m.closed
	if !closed {
		m.link(r)
	}
	m.mu.Unlock()
	if closed {
		m.Logger.Warn("relock: closed before a lock was released", r.grant.about()...)
		return errs.ErrClosed
	}
	m.monitor.start()
	return nil
}

// forget takes a grant out of the books.
func (m *Manager) forget(r *Renewal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unlink(r)
}

// all returns the grants in the books.
func (m *Manager) all() []*Renewal {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*Renewal, 0, len(m.grants))
	for _, r := range m.grants {
		for ; r != nil; r = r.next {
			all = append(all, r)
		}
	}
	return all
}

// allLeases returns the leases in the books.
func (m *Manager) allLeases() (all []*Lease) {
	for _, r := range m.all() {
		if l := r.grant.single(); l != nil {
			all = append(all, l)
		}
	}
	return all
}

// Close ends all waits and holds. It stops the goroutines of the manager, and
// waits for them. It must be called only once.
func (m *Manager) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	grants := m.all()
	var waits []script.Call
	if m.ReleaseOnClose {
		waits = m.Queue.Cancels() // before the waiters leave
	}
	m.end()
	held := endHolds(grants)
	if m.ReleaseOnClose {
		m.giveAllBack(waits, held)
	} else {
		m.sendLast()
	}
	m.expiry.close()
	m.watchdog.Close()
	for _, f := range m.allReplicators() {
		f.Close()
	}
	m.Retrier.Close()
	m.Queue.Close()
	err := m.Driver.Close()
	m.Tasks.WaitFor(conns.CloseWait)
	if !m.ReleaseOnClose {
		m.warnOfHeld(held)
	}
	for _, key := range m.Retrier.Unconfirmed() {
		m.Logger.Warn("relock: closed before a release was confirmed", "key", key)
	}
	return err
}

// NodesChanged is called when masters have changed. The nodes that have gone
// are not to be used any more. A new master may lack what the old one has
// answered, and one that was replaced for a while has lost it.
func (m *Manager) NodesChanged(gone []driver.Node) {
	for _, f := range append(m.allReplicators(), m.watchdog, m.Retrier.Fleet) {
		f.Retire(gone)
	}
	m.Retrier.Hasten() // waiters wait for the releases
	m.recheckAll()
	m.Queue.NodesChanged(gone)
}

// Ask sends a script that acquires a lock or extends a lease, and waits for the
// replicas that the settings require.
func (m *Manager) Ask(ctx context.Context, settings *lockspec.Spec, s script.Call) (driver.Result, script.Indeterminate) {
	m.CheckSuspended(time.Now())
	return script.Run(ctx, m.Driver, driver.ForLease(settings.Lease), s, settings.Ack())
}

// AskAll is Ask for scripts of several keys, which are sent together. The
// settings require no replicas.
func (m *Manager) AskAll(ctx context.Context, settings *lockspec.Spec, calls []script.Call) ([]driver.Result, []script.Indeterminate) {
	m.CheckSuspended(time.Now())
	return script.RunAll(ctx, m.Driver, driver.ForLease(settings.Lease), calls)
}

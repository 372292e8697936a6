package lease

import (
	"context"
	"log/slog"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/suspend"
	"github.com/relock-go/relock/internal/validity"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Manager is the engine of one client: its leases, and the workers that renew
// and release them.
type Manager struct {
	Config
	*validity.Books

	Retrier *background.Retrier
	Queue   *waitqueue.Queue
	Local   *LocalWaiters
	Tasks   *goroutines.Group
	Waiting atomic.Int64 // calls that wait at the moment
	Losses  atomic.Int64 // of leases that had a hold
	Outages *outage.Log
	Suspect Suspect // of package queue

	// OneByOne is set once the server has refused a request for keys of several
	// slots.
	OneByOne atomic.Bool

	Life context.Context // cancelled by Close
	end  context.CancelFunc

	mu     sync.Mutex
	owners map[OwnerKey]*Owner
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
	HandOffs localwait.Budget
}

// DefaultLimits returns the limits of a client.
func DefaultLimits() Limits {
	return Limits{Notice: 200 * time.Millisecond, HandOffs: localwait.DefaultBudget()}
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
	m := &Manager{Config: c, Tasks: &goroutines.Group{}, owners: map[OwnerKey]*Owner{}}
	m.Life, m.end = context.WithCancel(context.Background())
	m.Books = m.newBooks(suspend.MachineClocks())
	m.Retrier = background.NewRetrier(background.NewFleet(m.Life, c.Driver, m.Tasks), c.Logger, c.DialTimeout)
	m.Queue = waitqueue.New(waitqueue.Host{
		Identity: c.Identity, Prefix: c.Prefix, Driver: c.Driver, Tasks: m.Tasks, Life: m.Life, Logger: c.Logger,
		Retrier: m.Retrier, Ask: m.Ask, Forced: m.Forced,
	})
	m.Local = localwait.New[Handed](m.Life)
	m.Outages = outage.New(c.Logger, m.startUnlessClosed)
	return m
}

// newBooks returns the books of the client.
func (m *Manager) newBooks(c suspend.Clocks) *validity.Books {
	return validity.New(validity.Config{
		Driver: m.Driver, Logger: m.Logger, Life: m.Life, Tasks: m.Tasks, RenewDone: m.Hooks.RenewDone, Clocks: c,
	})
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

// allLeases returns the leases in the books.
func (m *Manager) allLeases() (all []*Lease) {
	return leasesAmong(m.All())
}

// leasesAmong returns the leases among grants.
func leasesAmong(grants []*validity.Renewal) (all []*Lease) {
	for _, r := range grants {
		if l, ok := r.Grant().(*Lease); ok {
			all = append(all, l)
		}
	}
	return all
}

// Close ends all waits and holds. It stops the goroutines of the manager, and
// waits for them. It must be called only once.
func (m *Manager) Close() error {
	m.Seal()
	grants := m.All()
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
	m.Books.Close()
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
	m.Retrier.Retire(gone)
	m.Retrier.RunNow() // waiters wait for the releases
	m.Books.NodesChanged(gone)
	m.Queue.NodesChanged(gone)
}

// Ask sends a script that acquires a lock or extends a lease, and waits for the
// replicas that the settings require.
func (m *Manager) Ask(
	ctx context.Context, settings *lockspec.Spec, s script.Call,
) (driver.Result, script.Indeterminate) {
	m.CheckSuspended(time.Now())
	return script.Run(ctx, m.Driver, driver.ForLease(settings.Lease), s, settings.Ack())
}

// AskAll is Ask for scripts of several keys, which are sent together. The
// settings require no replicas.
func (m *Manager) AskAll(
	ctx context.Context, settings *lockspec.Spec, calls []script.Call,
) ([]driver.Result, []script.Indeterminate) {
	m.CheckSuspended(time.Now())
	return script.RunAll(ctx, m.Driver, driver.ForLease(settings.Lease), calls)
}

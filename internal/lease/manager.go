package lease

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lockspec"
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
	Reading  sync.Map // what calls read for the texts of their errors, by key; see package acquire

	// OneByOne is set once the server has refused a request for keys of several
	// slots.
	OneByOne atomic.Bool

	Life context.Context // cancelled by Close
	end  context.CancelFunc

	mu     sync.Mutex
	closed bool
	leases map[*Lease]struct{}
	owners map[OwnerKey]*Owner
	// holders has the newest owner that has a lease, by lock: a key without ID.
	holders map[OwnerKey]*Owner

	replicators map[driver.Ack]*background.Fleet // the watchdogs of locks that wait for replicas

	reasonLimit time.Duration // see noticeLimit
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
}

// Hooks are the functions of the observer that the manager calls. Each may be
// nil.
type Hooks struct {
	HoldDone  func(context.Context, holds.End)
	RenewDone func(context.Context, holds.End)
}

// New returns the engine of one client. Its goroutines start with the first
// lock.
func New(c Config) *Manager {
	m := &Manager{
		Config: c, Tasks: &tasks.Group{},
		leases: map[*Lease]struct{}{}, owners: map[OwnerKey]*Owner{}, holders: map[OwnerKey]*Owner{}, expiry: newExpiryTimers(),
		replicators: map[driver.Ack]*background.Fleet{}, reasonLimit: noticeLimit,
	}
	m.Life, m.end = context.WithCancel(context.Background())
	m.watchdog = background.NewFleet(m.Life, c.Driver, m.Tasks)
	m.watchdog.Ahead = renewAhead
	m.Retrier = background.NewRetrier(background.NewFleet(m.Life, c.Driver, m.Tasks), c.Logger, c.DialTimeout)
	m.Queue = waitqueue.New(waitqueue.Host{
		Identity: c.Identity, Prefix: c.Prefix, Driver: c.Driver, Tasks: m.Tasks, Life: m.Life, Logger: c.Logger,
		Retrier: m.Retrier, Ask: m.Ask, Forced: m.forced,
	})
	m.monitor = newSuspendMonitor(m, suspend.WithSleep, suspend.Split)
	return m
}

// Eval runs a script of a lock. It may send the script twice, which all of
// these scripts allow.
func (m *Manager) Eval(ctx context.Context, limit driver.Limits, s script.Call) (driver.Result, script.Indeterminate) {
	return script.Run(ctx, m.Driver, limit, s, nil)
}

// RedisKey returns the key in Redis of the lock with this name.
func (m *Manager) RedisKey(key string) string { return m.Prefix + "{" + key + "}" }

// adopt registers a lease, so that Close ends it. It fails if the client was
// closed.
func (m *Manager) adopt(l *Lease) error {
	m.mu.Lock()
	closed := m.closed
	if !closed {
		m.leases[l] = struct{}{}
	}
	m.mu.Unlock()
	if closed {
		return errs.ErrClosed
	}
	m.monitor.start()
	return nil
}

func (m *Manager) forget(l *Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leases, l)
}

// Close ends all waits and holds. It stops the goroutines of the manager, and
// waits for them. It must be called only once.
func (m *Manager) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	leases := m.allLeases()
	var waits []script.Call
	if m.ReleaseOnClose {
		waits = m.Queue.Cancels() // before the waiters leave
	}
	m.end()
	held := endHolds(leases)
	if m.ReleaseOnClose {
		m.giveAllBack(waits, held)
	}
	m.expiry.close()
	m.watchdog.Close()
	for _, f := range m.allReplicators() {
		f.Close()
	}
	m.Retrier.Close()
	m.Queue.Close()
	err := m.Driver.Close()
	m.Tasks.WaitFor(driver.CloseWait)
	if !m.ReleaseOnClose {
		m.warnOfHeld(held)
	}
	for _, key := range m.Retrier.Unconfirmed() {
		m.Logger.Warn("relock: closed before a release was confirmed", "key", key)
	}
	return err
}

// NodesChanged is called when the servers have changed. The nodes that have
// gone are not to be used any more.
func (m *Manager) NodesChanged(gone []driver.Node) {
	for _, f := range append(m.allReplicators(), m.watchdog, m.Retrier.Fleet) {
		f.Retire(gone)
	}
	m.Retrier.Hasten() // waiters wait for the releases
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

package relock

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/suspend"
	"github.com/relock-go/relock/internal/tasks"
	"github.com/relock-go/relock/internal/waitqueue"
)

// manager is the engine of a client: its leases, and what renews and releases
// them.
type manager struct {
	managerConfig

	watchdog *background.Worker
	retrier  *background.Retrier
	queue    *waitqueue.Queue
	beliefs  *beliefs
	vigil    *vigil
	tasks    *tasks.Group

	life context.Context // ends with Close
	end  context.CancelFunc

	mu     sync.Mutex
	closed bool
	leases map[*lease]struct{}
	owners map[ownerOf]*owner

	replicators map[driver.Ack]*background.Worker // the watchdogs of locks that wait for replicas

	reasonLimit time.Duration // see noticeLimit
}

// managerConfig is what a manager needs of its client.
type managerConfig struct {
	identity       lockspec.Identity
	prefix         string // of the names of locks
	driver         driver.Driver
	logger         *slog.Logger
	dialTimeout    time.Duration
	commandTimeout time.Duration
	releaseOnClose bool
	hooks          hooks
}

// hooks are those of the observer that the manager calls; each may be nil.
type hooks struct {
	holdDone  func(context.Context, holdEnd)
	renewDone func(key string, sent time.Time, err error)
}

func newManager(c managerConfig) *manager {
	m := &manager{
		managerConfig: c, tasks: &tasks.Group{},
		leases: map[*lease]struct{}{}, owners: map[ownerOf]*owner{}, beliefs: newBeliefs(),
		replicators: map[driver.Ack]*background.Worker{}, reasonLimit: noticeLimit,
	}
	m.life, m.end = context.WithCancel(context.Background())
	m.watchdog = background.NewWorker(c.driver, m.tasks, m.life.Done())
	m.watchdog.Ahead = renewAhead
	m.retrier = background.NewRetrier(background.NewWorker(c.driver, m.tasks, m.life.Done()), c.logger, c.dialTimeout)
	m.queue = waitqueue.New(waitqueue.Host{
		Identity: c.identity, Prefix: c.prefix, Driver: c.driver, Tasks: m.tasks, Life: m.life, Logger: c.logger,
		Retrier: m.retrier, Ask: m.ask, Forced: m.forced,
	})
	m.vigil = newVigil(m, suspend.WithSleep, suspend.Split)
	return m
}

// eval runs a script of the locks, which may be sent twice.
func (m *manager) eval(ctx context.Context, limit driver.Limits, s script.Call) (driver.Result, script.Indeterminate) {
	return script.Run(ctx, m.driver, limit, s, nil)
}

// redisKey returns where the lock of this name is in Redis.
func (m *manager) redisKey(key string) string { return m.prefix + "{" + key + "}" }

// adopt enters a lease in the books, so that Close ends it.
func (m *manager) adopt(l *lease) error {
	m.mu.Lock()
	closed := m.closed
	if !closed {
		m.leases[l] = struct{}{}
	}
	m.mu.Unlock()
	if closed {
		return errs.ErrClosed
	}
	m.vigil.start()
	return nil
}

func (m *manager) forget(l *lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leases, l)
}

func (m *manager) close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	leases := m.allLeases()
	var waits []script.Call
	if m.releaseOnClose {
		waits = m.queue.Cancels() // before they leave
	}
	m.end()
	held := endHolds(leases)
	if m.releaseOnClose {
		m.giveAllBack(waits, held)
	}
	m.beliefs.close()
	m.watchdog.Close()
	for _, w := range m.allReplicators() {
		w.Close()
	}
	m.retrier.Close()
	m.queue.Close()
	err := m.driver.Close()
	m.tasks.WaitFor(driver.CloseWait)
	for _, key := range m.retrier.Unconfirmed() {
		m.logger.Warn("relock: closed before a release was confirmed", "key", key)
	}
	return err
}
